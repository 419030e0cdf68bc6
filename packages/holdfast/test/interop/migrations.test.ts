import { expect, it } from 'vitest';
import { queue, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { dbosSide, often } from './dbos.js';

describeBackends(
  'a database that DBOS and Holdfast share',
  (backend) => {
    const dbos = dbosSide();
    const mail = topic<string>('mail');
    const wait = workflow('wait', async () => mail.receive());
    const ours = (database: string) =>
      backend.testApp({ database, workflows: [wait], queues: [queue('ours')], clock: 'real' });

    /** Both sides use the database at the same time, and each runs work for the other. */
    async function bothWork(database: string): Promise<void> {
      const client = await dbos.client(database);
      const theirs = await client.enqueue({ queueName: 'theirs', workflowName: 'show', workflowID: 'theirs' }, 1);
      await client.enqueue({ queueName: 'ours', workflowName: 'wait', workflowID: 'ours' });
      await mail.send('theirs', 'from us');
      await client.send('ours', 'from them', 'mail');
      expect(await theirs.getResult(often)).toEqual({ value: 1, mail: 'from us' });
      expect(await client.retrieveWorkflow('ours').getResult(often)).toBe('from them');
    }

    const version = (database: string) => tamper(database, 'select version from dbos_migrations');

    it('works if Holdfast created it, at version 108 and without a warning from DBOS', async () => {
      const database = await backend.emptyDatabase();
      await ours(database);
      expect(await version(database)).toEqual([{ version: '108' }]);
      const worker = await dbos.worker(database, { queue: 'theirs' });
      expect(await version(database)).toEqual([{ version: '108' }]);
      await bothWork(database);
      expect(worker.complaints).toEqual([]);
    });

    it('works if DBOS created it, and keeps what DBOS had stored', async () => {
      const database = await backend.emptyDatabase();
      const worker = await dbos.worker(database, { queue: 'theirs' });
      const client = await dbos.client(database);
      const old = await client.enqueue({ queueName: 'theirs', workflowName: 'visit', workflowID: 'old' }, 'none', 1);
      await old.getResult(often).catch(() => {});
      const t = await ours(database);
      expect(await version(database)).toEqual([{ version: '108' }]);
      expect(await t.app.workflows.get('old')).toMatchObject({ status: 'ERROR', name: 'visit', input: ['none', 1] });
      await bothWork(database);
      expect(worker.complaints.filter((line) => !line.includes('none'))).toEqual([]);
    });

    it('has the same tables, columns and functions whichever side created it', async () => {
      const [made, theirs] = [await backend.emptyDatabase(), await backend.emptyDatabase()];
      await ours(made);
      await (await dbos.worker(theirs)).stop();
      const shared = await layout(theirs);
      expect(shared.length).toBeGreaterThan(100);
      const own = await layout(made);
      expect(shared.filter((line) => !own.includes(line))).toEqual([]);
      await ours(theirs);
      expect(await layout(theirs)).toEqual(own);
    });
  },
  ['postgres'],
);

/** Columns with type and nullability, and functions with their parameters. */
async function layout(database: string): Promise<string[]> {
  const columns = await tamper(
    database,
    `select format('%s.%s %s %s', table_name, column_name, replace(data_type, 'character varying', 'text'), is_nullable)
     as line from information_schema.columns where table_schema = 'dbos'`,
  );
  const functions = await tamper(
    database,
    `select format('%s(%s)', proname, pg_get_function_identity_arguments(oid)) as line
     from pg_proc where pronamespace = 'dbos'::regnamespace`,
  );
  return [...columns, ...functions].map(({ line }) => line as string).sort();
}
