import type pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { connect, topic, workflow } from '../../src/index.js';
import { migratePostgres } from '../../src/storage/postgres/migrate.js';
import { describeBackends, silent } from '../support/backends.js';
import { recordingLogger, tamper } from '../support/faults.js';
import { connectTo, countStatements } from './migrations-support.js';

const trigger = 'dbos_notifications_trigger';
const ownTrigger = 'holdfast_messages_trigger';
const dropTrigger = `drop trigger ${trigger} on notifications`;
const dropOwnTrigger = `drop trigger ${ownTrigger} on notifications`;
/** The trigger as DBOS creates it. */
const asOfDbos = `${dropTrigger}; create trigger ${trigger} after insert on notifications for each row
  execute function notifications_function()`;
const dropFunctions = 'drop function enqueue_workflow; drop function send_message';

describeBackends(
  'a database that has the right version but lacks triggers and functions',
  (backend) => {
    const mail = topic<string>('mail');
    const wait = workflow('wait', async () => mail.receive({ timeout: '1d' }));
    const all = [trigger, 'enqueue_workflow', ownTrigger, 'send_message'];
    const present = (database: string) =>
      tamper(
        database,
        `select name from (select tgname::text as name from pg_trigger union select proname from pg_proc
         where pronamespace = 'dbos'::regnamespace) found where name in ('${all.join("', '")}') order by 1`,
      ).then((rows) => rows.map(({ name }) => name));
    /** Starts a workflow that waits for a message. The clock stands still, and one query of the inbox found nothing. */
    async function waiting(database: string, options: object = {}) {
      const logger = recordingLogger();
      const t = await backend.testApp({ database, workflows: [wait], logger, ...options });
      const handle = await wait.with({ id: 'w', app: t.app }).start();
      await expect.poll(() => t.statements).toContain('messages.waiting');
      return { t, handle, logger };
    }
    const send = (database: string) => tamper(database, `select send_message('w', '"hello"', 'mail')`);

    it('gets its triggers and functions at launch, and messages then arrive at once', async () => {
      const database = await backend.newDatabase();
      await tamper(database, dropTrigger);
      await tamper(database, dropOwnTrigger);
      await tamper(database, dropFunctions);
      const { handle, logger } = await waiting(database);
      expect(await present(database)).toEqual(all);
      await send(database);
      expect(await handle.result()).toBe('hello');
      expect(logger.lines).toEqual([]);
    });

    it('is checked by the statement that reads its version, without another statement', async () => {
      const client = await connectTo(await backend.newDatabase());
      const statements = countStatements(client);
      await migratePostgres(client, { schema: 'dbos', migrate: true, logger: silent });
      expect(statements).toHaveLength(1);
    });

    it('is polled, with a warning, if the launch must not create anything', async () => {
      const database = await backend.newDatabase();
      await tamper(database, dropTrigger);
      await tamper(database, dropOwnTrigger);
      const { t, handle, logger } = await waiting(database, { migrate: false });
      expect(logger.matching(/is missing in schema "dbos".*`migrate: false` creates nothing/)).toHaveLength(2);
      await send(database);
      await t.clock.advance('500ms');
      expect(await handle.result()).toBe('hello');
      await tamper(database, dropFunctions);
      const client = await connect({ database, logger });
      onTestFinished(() => client.close());
      expect(logger.matching(/are missing in schema "dbos": enqueue_workflow, send_message/)).toHaveLength(1);
      expect(logger.matching(/dbos_notifications_trigger/)).toHaveLength(1);
    });

    it('works with a role that must not create anything, with a warning', async () => {
      const database = await backend.newDatabase();
      await tamper(database, dropTrigger);
      await tamper(database, dropOwnTrigger);
      await tamper(database, dropFunctions);
      const client = await asGuest(database);
      const logger = recordingLogger();
      const options = { schema: 'dbos', migrate: true, logger };
      expect(await migratePostgres(client, options)).toMatchObject({ trigger: 'missing', ownTrigger: 'missing' });
      expect(logger.lines).toEqual([
        expect.stringMatching(/dbos_notifications_trigger.*is missing.*(permission denied|must be owner)/),
        expect.stringMatching(/holdfast_messages_trigger.*is missing.*(permission denied|must be owner)/),
        expect.stringMatching(/enqueue_workflow, send_message/),
      ]);
    });

    it('keeps a trigger disabled that an operator has disabled', async () => {
      const database = await backend.newDatabase();
      for (const each of [trigger, ownTrigger])
        await tamper(database, `alter table notifications disable trigger ${each}`);
      const { t, handle, logger } = await waiting(database);
      expect(logger.matching(/is disabled in schema "dbos".*enable trigger/)).toHaveLength(2);
      await send(database);
      await t.clock.advance('500ms');
      expect(await handle.result()).toBe('hello');
      expect(await tamper(database, `select tgenabled from pg_trigger where tgname = '${trigger}'`)).toEqual([
        { tgenabled: 'D' },
      ]);
    });

    it('gets the condition of its trigger back at launch after another program recreated the trigger', async () => {
      const database = await backend.newDatabase();
      const definition = () =>
        tamper(database, `select pg_get_triggerdef(oid) from pg_trigger where tgname = '${trigger}'`);
      const before = await definition();
      expect(JSON.stringify(before)).toContain('WHEN ((new.announced_by_sender IS NOT TRUE))');
      await tamper(database, asOfDbos);
      const { handle, logger } = await waiting(database);
      expect(await definition()).toEqual(before);
      await send(database);
      expect(await handle.result()).toBe('hello');
      expect(logger.lines).toEqual([]);
    });

    it('delivers each message once, with a warning, if an unchangeable trigger announces every message', async () => {
      const database = await backend.newDatabase();
      await tamper(database, asOfDbos);
      const twice = workflow('twice', async () => {
        const first = await mail.receive({ timeout: '1d' });
        return [first, await mail.receive({ timeout: '1d' })];
      });
      const { t, handle, logger } = await waiting(database, { migrate: false, workflows: [wait, twice] });
      expect(logger.matching(/announces every message inside the transaction.*`migrate: false`/)).toHaveLength(1);
      const other = await backend.testApp({ database, workflows: [], name: 'other', migrate: false });
      await mail.send('w', 'once', { app: other.app });
      expect(await handle.result()).toBe('once');
      const both = await twice.with({ id: 'both', app: t.app }).start();
      await t.clock.advance(0);
      for (const value of ['one', 'two']) await mail.send('both', value, { app: other.app });
      expect(await both.result()).toEqual(['one', 'two']);
    });

    it('works without triggers if asked to: processes notify each other and poll for messages from SQL', async () => {
      const database = await backend.emptyDatabase();
      const { t, handle, logger } = await waiting(database, { triggers: false });
      expect(await present(database)).toEqual(all.filter((name) => !name.endsWith('_trigger')));
      const other = await backend.testApp({ database, workflows: [], name: 'other', triggers: false });
      await mail.send('w', 'from afar', { app: other.app });
      expect(await handle.result()).toBe('from afar');
      const again = await wait.with({ id: 'again', app: t.app }).start();
      await tamper(database, `select send_message('again', '"by SQL"', 'mail')`);
      await t.clock.advance('500ms');
      expect(await again.result()).toBe('by SQL');
      expect(logger.lines).toEqual([]);
    });
  },
  ['postgres'],
);

async function asGuest(database: string): Promise<pg.Client> {
  const client = await connectTo(database);
  const role = `guest_${Math.random().toString(36).slice(2)}`;
  await client.query(
    `create role ${role}; grant usage on schema dbos to ${role}; grant all on all tables in schema dbos to ${role}`,
  );
  onTestFinished(async () => {
    await client.query(`reset role; drop owned by ${role}; drop role ${role}`);
  });
  await client.query(`set role ${role}`);
  return client;
}
