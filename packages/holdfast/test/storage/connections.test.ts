import pg from 'pg';
import { expect, inject, it, onTestFinished } from 'vitest';
import { queue, run, schedule, topic, workflow } from '../../src/index.js';
import { openPostgres } from '../../src/storage/postgres/database.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';

/** Longer than each pause between background statements, so that no pause ends a connection on a slow machine. */
const idleTimeoutMillis = 1_000;

const mail = topic<number>('mail');
const work = workflow('work', async (input: number) => run('step', async () => input));
const waits = workflow('waits', async () => mail.receive({ timeout: '1d' }));
const nightly = workflow('nightly', async () => 'done');
const schedules = [schedule('nightly', '0 0 3 * * *', nightly)];

describeBackends(
  'the connections of an app',
  (backend) => {
    it('are two while the app is idle: one that listens and one that works', async () => {
      const { t, sessions, client } = await launched(backend);
      await waits.start();
      await load(t.app, client);
      expect((await sessions()).length).toBeGreaterThan(2);

      // The connections opened for the load close after the idle time. Background services continue meanwhile.
      const later = () => t.clock.advance('1s').then(sessions);
      await expect.poll(later, { timeout: 90_000 }).toHaveLength(2);
      const seen = new Set<number>();
      // The steps are shorter than the interval of any service, so that no service is skipped.
      for (let step = 0; step < 600; step++) {
        await t.clock.advance(100);
        seen.add((await sessions()).length);
      }
      expect([...seen]).toEqual([2]);
    });

    it.each([2, 5, 10])('are at most `poolSize` plus two under load (%i)', async (poolSize) => {
      const { t, sessions, client } = await launched(backend, { poolSize });
      let isDone = false;
      const watched = (async () => {
        let most = 0;
        while (!isDone) most = Math.max(most, (await sessions()).length);
        return most;
      })();
      await load(t.app, client);
      isDone = true;
      expect(await watched).toBeLessThanOrEqual(poolSize + 2);
    });

    it('do not increase when background statements run at the same time', async () => {
      const { database, opened } = await openCounting(await backend.newDatabase());
      const text = 'select 1 as one';
      const shared = { name: 'test.shared', text, shared: true as const };
      const sharedPinned = { name: 'test.shared-pinned', text, shared: true as const, pinned: true as const };
      await database.query(sharedPinned, []);
      await Promise.all([shared, sharedPinned, shared, sharedPinned].map((each) => database.query(each, [])));
      expect(await opened()).toBe(1);
    });

    it('increase when a background statement finds no free connection for a long time', async () => {
      const { database, opened } = await openCounting(await backend.newDatabase());
      const held = database.query({ name: 'test.held', text: 'select pg_advisory_lock(1)', pinned: true }, []);
      await held;
      const other = database.query({ name: 'test.waits', text: 'select pg_sleep(3600)', pinned: true }, []);
      const stopped = other.catch(() => 'stopped');
      // All open connections are busy: the statement waits for a while and then gets its own connection.
      expect(await database.query({ name: 'test.shared', text: 'select 1 as one', shared: true }, [])).toEqual([
        { one: 1 },
      ]);
      expect(await opened()).toBe(2);
      await admin(`select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(3600)'
        and pid <> pg_backend_pid()`);
      await stopped;
    });
  },
  ['postgres'],
);

async function launched(backend: Backend, options: { readonly poolSize?: number } = {}) {
  const url = await backend.newDatabase();
  const client = new pg.Pool({ connectionString: inject('postgresUrl'), max: 1 });
  onTestFinished(() => client.end());
  // The test app passes its options on, and a URL cannot express this.
  const database = { connectionString: url, idleTimeoutMillis } as unknown as string;
  const queues = [queue('free'), queue('limited', { concurrency: 5 })];
  const t = await backend.testApp({ database, workflows: [work, waits, nightly], queues, schedules, ...options });
  return { t, client, sessions: () => sessionsOf(url, client) };
}

/** A mixed load: starts, work on queues, messages, and operations that read. */
async function load(app: Awaited<ReturnType<Backend['testApp']>>['app'], client: pg.Pool): Promise<void> {
  await client.query('select 1');
  const numbers = Array.from({ length: 100 }, (_, i) => i);
  const handles = await Promise.all(
    numbers.flatMap((n) => [
      work.start(n),
      work.with({ queue: 'free' }).start(n),
      work.with({ queue: 'limited' }).start(n),
    ]),
  );
  const reads = numbers.map(() => app.workflows.list({ limit: 1 }));
  await Promise.all([...handles.map((handle) => handle.result()), ...reads]);
}

async function sessionsOf(url: string, client: pg.Pool): Promise<number[]> {
  const text = `select pid from pg_stat_activity where datname = $1 and backend_type = 'client backend'`;
  return (await client.query(text, [new URL(url).pathname.slice(1)])).rows.map(({ pid }) => pid);
}

async function openCounting(url: string) {
  const options = { schema: 'dbos', migrate: false, logger: silent, applicationName: 'test' };
  const database = await openPostgres({ url, ...options });
  const client = new pg.Pool({ connectionString: inject('postgresUrl'), max: 1 });
  onTestFinished(async () => {
    await database.close();
    await client.end();
  });
  return { database, opened: async () => (await sessionsOf(url, client)).length };
}

async function admin(text: string): Promise<void> {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  await client.query(text);
  await client.end();
}
