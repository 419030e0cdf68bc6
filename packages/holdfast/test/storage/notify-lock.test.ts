import pg from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { event, migrate, run, stream, topic, workflow } from '../../src/index.js';
import { openStorage } from '../../src/storage/open.js';
import { type OwnPostgres, startOwnPostgres } from '../faults/own-postgres.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { gate } from '../support/faults.js';

/**
 * A transaction that notifies takes a server-wide lock when it commits. It keeps the lock until its commit is on disk
 * and confirmed by the standbys it waits for. Here a session holds the lock as long as a test needs, because it waits
 * for a standby that does not exist. Therefore a transaction that commits meanwhile has not notified.
 */
describeBackends('while a session holds the lock of NOTIFY', suite, ['postgres']);

const numbers = topic<number>('numbers');
const progress = event<number>('progress');
const lines = stream<number>('lines');

function suite(backend: Backend): void {
  let server: OwnPostgres;
  beforeAll(async () => {
    server = await startOwnPostgres({ synchronous_standby_names: 'nobody', synchronous_commit: 'local' });
  });
  afterAll(() => server.stop());

  it('sends, events and stream writes commit, and only announcements and sends by SQL wait', async () => {
    const database = await databaseOn(server);
    const hold = gate();
    const other = workflow('other', () => run('hold', () => hold.promise));
    const talks = workflow('talks', async () => {
      await numbers.send('other', 1);
      await numbers.sendAll([2, 3].map((value) => ({ to: 'other', value })));
      await progress.set(1);
      await lines.write(1);
      await run('in a step', async () => {
        await numbers.send('other', 4);
        await progress.set(2);
        await lines.write(2);
      });
      return numbers.receive();
    });
    await backend.testApp({ database, workflows: [talks, other] });
    await other.with({ id: 'other' }).start();
    const lock = await holdNotifyLock(database);
    const talking = await lock.without(talks.with({ id: 'talks' }).start());
    await lock.without(numbers.send('talks', 5));
    await lock.without(numbers.sendAll([6, 7].map((value) => ({ to: 'other', value }))));
    expect(await lock.without(talking.result())).toBe(5);
    await expect.poll(lock.waiting).toEqual(['announce']);
    const bySql = connectedTo(database).then((sql) => sql.query(`select dbos.send_message('other', '8', 'numbers')`));
    await expect.poll(lock.waiting).toEqual(['announce', 'send_message']);
    await lock.release();
    await bySql;
    hold.open();
  });

  it('a message without an announcement is found by the poll of another process', async () => {
    const database = await databaseOn(server);
    const takes = workflow('takes', () => numbers.receive({ timeout: '1h' }));
    const here = await backend.testApp({ database, workflows: [takes], executorId: 'here' });
    const there = await backend.testApp({ database, workflows: [], executorId: 'there', name: 'there' });
    const handle = await takes.with({ app: here.app }).start();
    await here.clock.advance(0);
    const lock = await holdNotifyLock(database);
    await lock.without(numbers.send(handle.id, 1, { app: there.app }));
    await here.clock.advance('5s');
    expect(await handle.result()).toBe(1);
    await lock.release();
  });

  it('an announcement commits without waiting for a standby, although every other write waits', async () => {
    const database = await databaseOn(server);
    await migrate({ database, logger: silent });
    const admin = await connectedTo(database);
    await admin.query(`alter database ${new URL(database).pathname.slice(1)} set synchronous_commit = on`);
    const options = { schema: 'dbos', migrate: false, logger: silent, applicationName: 'announcer' };
    const storage = await openStorage({ url: database, ...options });
    onTestFinished(() => storage.close());
    const write = storage.versions.register({ name: 'v', appName: 'app', now: 1 });
    const waiting = "from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database()";
    const waiters = async () => (await admin.query(`select pid ${waiting}`)).rows.length;
    await expect.poll(waiters).toBe(1);
    await storage.announce(['queues', 'message:w::numbers']);
    expect(await waiters()).toBe(1);
    await admin.query(`select pg_cancel_backend(pid) ${waiting}`);
    await write;
  });
}

let databases = 0;

async function databaseOn(server: OwnPostgres): Promise<string> {
  const name = `notify_${++databases}`;
  await (await connectedTo(server.url)).query(`create database ${name}`);
  return server.url.replace(/\/postgres$/, `/${name}`);
}

async function connectedTo(database: string): Promise<pg.Client> {
  const client = new pg.Client(database);
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

const ofNotify = "l.locktype = 'object' and l.database = 0 and l.classid = 'pg_database'::regclass and l.objid = 0";

async function holdNotifyLock(database: string) {
  const [holder, watcher] = [await connectedTo(database), await connectedTo(database)];
  const { rows } = await holder
    .query('create table if not exists public.holder (n int); select pg_backend_pid() as pid')
    .then((results) => (results as unknown as pg.QueryResult[])[1] as pg.QueryResult);
  await holder.query('set synchronous_commit = on; begin; insert into public.holder values (1); notify held');
  const committed = holder.query('commit');
  const granted = `select 1 from pg_locks l where ${ofNotify} and l.granted and l.pid = ${rows[0].pid}`;
  await expect.poll(async () => (await watcher.query(granted)).rows).toHaveLength(1);
  /** Lists the statements that wait for the lock, each kind once. */
  const waiting = async (): Promise<string[]> => {
    const text = `select a.query from pg_locks l join pg_stat_activity a using (pid) where ${ofNotify} and not l.granted`;
    const kinds = (await watcher.query(text)).rows.map(({ query }) =>
      /^select (set_config\(.*, )?pg_notify\(/.test(query) ? 'announce' : (/send_message/.exec(query)?.[0] ?? query),
    );
    return [...new Set<string>(kinds)].sort();
  };
  let held = true;
  /** Cancels the wait for the standby. The commit remains. */
  const release = async (): Promise<void> => {
    if (held) await watcher.query(`select pg_cancel_backend(${rows[0].pid})`);
    held = false;
    await committed;
  };
  onTestFinished(release);
  /** Returns the result of the work. Fails if anything except an announcement waits for the lock meanwhile. */
  const without = async <T>(work: Promise<T>): Promise<T> => {
    let over = false;
    const done = (): void => {
      over = true;
    };
    work.then(done, done);
    while (!over) expect((await waiting()).filter((kind) => kind !== 'announce')).toEqual([]);
    return work;
  };
  return { waiting, without, release };
}
