import pg from 'pg';
import { expect, it, vi } from 'vitest';
import { type App, launch, queue, schedule, workflow } from '../../src/index.js';
import { openStorage } from '../../src/storage/open.js';
import { openPostgres } from '../../src/storage/postgres/database.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

/** Statements that have to wait for a lock that another session holds on a queue or a schedule. */
describeBackends(
  'a statement that waits for a lock',
  (backend) => {
    it('does not make a rate limit lose the real start times', async () => {
      const starts: number[] = [];
      const wf = workflow('wf', async () => void starts.push(performance.now()));
      const limited = queue('q', { rateLimit: { max: 5, per: '1s' } });
      await holding(backend, { workflows: [wf], queues: [limited] }, async ({ lock, unlock, waiting }) => {
        await lock(`select 1 from dbos.queues where name = 'q' for no key update`);
        await wf.with({ queue: 'q' }).startAll(Array.from({ length: 10 }, () => []));
        await expect.poll(waiting).toBeGreaterThan(0);
        // When the claim can continue, most of a period has passed since it was sent.
        await new Promise((resolve) => setTimeout(resolve, 800));
        await unlock();
        await vi.waitFor(() => expect(starts).toHaveLength(10), { timeout: 10_000 });
        expect((starts[5] as number) - (starts[4] as number)).toBeGreaterThan(500);
      });
    });

    it('does not fire a schedule on a queue that is being deleted', async () => {
      const wf = workflow('wf', async (_at: Date) => {});
      const yearly = schedule('s', '0 0 1 1 *', wf, { queue: 'q' });
      const options = { workflows: [wf], queues: [queue('q')], schedules: [yearly] };
      await holding(backend, options, async ({ app, database, lock, unlock, waiting }) => {
        await lock(`delete from dbos.queues where name = 'q'`);
        const triggered = app.schedules.trigger('s').catch((error) => error.code);
        await expect.poll(waiting).toBeGreaterThan(0);
        await unlock();
        expect(await triggered).toBe('UNKNOWN_QUEUE');
        expect(await tamper(database, 'select workflow_uuid from workflow_status')).toEqual([]);
      });
    });

    it('delays one schedule, but not the others', async () => {
      const ran: string[] = [];
      const wf = workflow('wf', async (_at: Date, name: string) => void ran.push(name));
      const schedules = ['x', 'y'].map((name) => schedule(name, '* * * * * *', wf, { context: name }));
      await holding(backend, { workflows: [wf], schedules }, async ({ lock, unlock, waiting }) => {
        await lock(`select 1 from dbos.workflow_schedules where schedule_name = 'x' for no key update`);
        await vi.waitFor(async () => expect(await waiting()).toBeGreaterThan(0), { timeout: 10_000 });
        ran.length = 0;
        await vi.waitFor(() => expect(ran.filter((name) => name === 'y').length).toBeGreaterThan(2), {
          timeout: 10_000,
        });
        expect(ran).not.toContain('x');
        await unlock();
      });
    });

    it('makes the next statement wait for a shorter time than the first', async () => {
      const database = await backend.newDatabase();
      const common = { url: database, schema: 'dbos', migrate: false, logger: silent, applicationName: 'a' };
      const opened = await openPostgres({ ...common, answerTimeoutMs: 10_000, poolSize: 2 });
      const patience = async (): Promise<unknown> =>
        (await opened.query({ name: 'patience', text: 'show lock_timeout', pinned: true }, []))[0]?.lock_timeout;
      const holder = new pg.Client(database);
      await holder.connect();
      await holder.query('create table held (x int); insert into held values (1)');
      await holder.query('begin; lock table held');
      const touch = { name: 'touch', text: 'update held set x = x + 1', pinned: true as const };
      expect(await patience()).toBe('1s');
      expect(opened.classify(await failure(opened.query(touch, [])))).toBe('locked');
      expect(await patience()).toBe('100ms');
      expect(opened.classify(await failure(opened.query(touch, [])))).toBe('locked');
      // A statement that is known to wait gets its own connection, which works again afterwards.
      expect(opened.classify(await failure(opened.impatient?.query(touch, []) as Promise<unknown>))).toBe('locked');
      await holder.query('rollback');
      await opened.impatient?.query(touch, []);
      expect(await opened.query({ name: 'read', text: 'select x from held' }, [])).toEqual([{ x: 2 }]);
      await holder.end();
      await opened.close();
    });

    it('is canceled by the server before the app stops waiting for the answer', async () => {
      const database = await backend.newDatabase();
      const answerTimeoutMs = 1_000;
      const common = { url: database, schema: 'dbos', migrate: false, logger: silent, applicationName: 'a' };
      const storage = await openStorage({ ...common, answerTimeoutMs });
      const admin = new pg.Client(database);
      await admin.connect();
      await admin.query('begin; lock table dbos.queues');
      // The statement is certainly not applied, now or later. A missing answer would be classified as "lost".
      const refusal = await failure(storage.queues.list());
      expect(storage.classify(refusal)).toBe('slow');
      expect(refusal).toMatchObject({ code: 'DATABASE_FAILED', cause: { code: '57014' } });
      await admin.end();
      await storage.close();
    });
  },
  ['postgres'],
);

interface Held {
  readonly app: App;
  readonly database: string;
  lock(statement: string): Promise<void>;
  unlock(): Promise<void>;
  /** Counts the statements that wait for a lock. */
  waiting(): Promise<number>;
}

async function holding(
  backend: Backend,
  options: Omit<Parameters<typeof launch>[0], 'name'>,
  work: (held: Held) => Promise<void>,
): Promise<void> {
  const database = await backend.newDatabase();
  const app = await launch({ name: 'a', database, logger: silent, ...options });
  const [holder, watcher] = [new pg.Client(database), new pg.Client(database)];
  await Promise.all([holder.connect(), watcher.connect()]);
  try {
    await work({
      app,
      database,
      lock: async (statement) => void (await holder.query(`begin; ${statement}`)),
      unlock: async () => void (await holder.query('commit')),
      waiting: async () => {
        const { rows } = await watcher.query(
          `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        return rows[0].n;
      },
    });
  } finally {
    await Promise.all([holder.end(), watcher.end()]);
    await app.shutdown();
  }
}
