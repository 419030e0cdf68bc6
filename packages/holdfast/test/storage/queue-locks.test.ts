import { expect, it, onTestFinished } from 'vitest';
import { openStorage } from '../../src/storage/open.js';
import { silent } from '../support/backends.js';
import { describeStorage, idsOf, type Store, statuses } from './contract-support.js';
import {
  enqueued,
  ourTransaction,
  queueNamed,
  register,
  take,
  transaction,
  waiting,
  withQueue,
} from './queue-support.js';

/**
 * The locks by which claims and enqueues hold a queue (migrations/queue-locks.ts): next to processes of a release that
 * locks the row, in transactions with one snapshot for all queries, and when a session does not release its lock.
 */
describeStorage('the locks of a queue', suite, ['postgres']);

function suite(store: Store): void {
  withQueue(store);
  const queues = store.table('queues');
  const enqueue = (...ids: string[]) => store.storage.queues.enqueueMany(ids.map((id) => enqueued(id)));
  const turn = async () => (await queueNamed(store.storage)).lockVersion;
  const pause = async () => {
    const queue = await queueNamed(store.storage);
    return store.storage.queues.change({ queue, settings: queue.settings, paused: true, now: 2000 });
  };
  const taking = async (n: number) => {
    const claim = await ourTransaction(store);
    const known = await turn();
    return {
      ...claim,
      claimed: () => idsOf(take({ ...store.storage, queues: claim.queues }, n, { lockVersion: known })),
    };
  };

  it('leave nothing on the row: claims and enqueues that share a queue create no MultiXact', async () => {
    await enqueue('a', 'b');
    const [first, second] = [await taking(1), await taking(1)];
    expect([await first.claimed(), await second.claimed()]).toEqual([['a'], ['b']]);
    await first.queues.enqueueMany([enqueued('c')]);
    await second.queues.enqueueMany([enqueued('d')]);
    expect(await store.sql(`select xmax::text as "lockedBy" from ${queues}`)).toEqual([{ lockedBy: '0' }]);
    await first.commit();
    await second.commit();
  });

  it('are granted in order: later claims do not overtake a pause that waits for a claim', async () => {
    await enqueue('a', 'b');
    const under = await taking(1);
    expect(await under.claimed()).toEqual(['a']);
    const known = await turn();
    const paused = pause();
    await waiting(store, 'paused = ');
    const late = take(store.storage, 1, { lockVersion: known });
    await waiting(store, 'with known as');
    await under.commit();
    expect(await paused).toMatchObject({ paused: true });
    expect(await late).toEqual([]);
    expect(await statuses(store)).toEqual({ a: 'PENDING', b: 'ENQUEUED' });
  });

  it('delay a claim like a row lock while a session keeps them, but no longer than a writer waits', async () => {
    await enqueue('a');
    const known = await turn();
    const common = { schema: schemaOf(store), migrate: false, logger: silent, applicationName: 'hasty' };
    const hasty = await openStorage({ url: store.url, ...common, answerTimeoutMs: 1_000 });
    try {
      const edit = await transaction(store);
      await edit.query(`update ${queues} set paused = false`);
      const failure = await take(hasty, 1, { lockVersion: known }).catch((error) => error);
      expect(failure).toMatchObject({ cause: { code: '55P03' } });
      expect(hasty.classify(failure)).toBe('locked');
      await edit.query('rollback');
      expect(await idsOf(take(hasty, 1, { lockVersion: known }))).toEqual(['a']);
    } finally {
      await hasty.close();
    }
  });

  it('are a single lock for an enqueue to many queues, and a deletion waits for this lock too', async () => {
    const names = Array.from({ length: 200 }, (_, i) => `q${i}`);
    for (const name of names) await register(store.storage, name);
    const enqueuer = await ourTransaction(store);
    await enqueuer.queues.enqueueMany(names.map((name) => enqueued(`on ${name}`, { queueName: name })));
    const held = "select count(*)::int as locks from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()";
    expect(await enqueuer.sql(held)).toEqual([{ locks: 1 }]);
    const removed = store.storage.queues.remove('q199');
    await waiting(store, 'holdfast_close_queue');
    await enqueuer.commit();
    expect(await removed).toBe(false);
  });

  it('are released with the transaction that enqueues, even on rollback', async () => {
    const enqueuer = await ourTransaction(store);
    await enqueuer.queues.enqueueMany([enqueued('a')]);
    await enqueuer.sql('rollback');
    expect(await store.storage.queues.remove('q')).toBe(true);
  });

  besideOlder(store);
  inOneSnapshot(store);
}

/** During a deploy, processes of an older release, which locks the row, run next to processes of this release. */
function besideOlder(store: Store): void {
  const queues = store.table('queues');
  const enqueue = (...ids: string[]) => store.storage.queues.enqueueMany(ids.map((id) => enqueued(id)));

  it('next to an older release: a pause waits for a claim of the older release', async () => {
    const older = await transaction(store);
    await older.query(`select 1 from ${queues} where name = 'q' and not paused for share`);
    const queue = await queueNamed(store.storage);
    const paused = store.storage.queues.change({ queue, settings: queue.settings, paused: true, now: 2000 });
    await waiting(store, 'paused = ');
    await older.query('commit');
    expect(await paused).toMatchObject({ paused: true });
  });

  it('next to an older release: its pause waits for a claim, and stops the next claim', async () => {
    await enqueue('a', 'b');
    const claim = await ourTransaction(store);
    const { lockVersion } = await queueNamed(store.storage);
    expect(await idsOf(take({ ...store.storage, queues: claim.queues }, 1, { lockVersion }))).toEqual(['a']);
    const older = await transaction(store);
    const change = 'turn = turn + 1, updated_at = updated_at + 1, paused = true';
    const paused = older.query(`update ${queues} set ${change} where name = 'q'`);
    await waiting(store, 'paused = true');
    await claim.commit();
    await paused;
    await older.query('commit');
    expect(await take(store.storage, 1, { lockVersion })).toEqual([]);
  });

  it('next to an older release: a deletion waits for its enqueue, and then keeps the queue', async () => {
    const older = await transaction(store);
    await older.query(`select name from ${queues} where name = 'q' for key share`);
    const removed = store.storage.queues.remove('q');
    await waiting(store, 'for update');
    const workflows = store.table('workflow_status');
    await older.query(`insert into ${workflows} (workflow_uuid, status, queue_name) values ('a', 'ENQUEUED', 'q')`);
    await older.query('commit');
    expect(await removed).toBe(false);
  });

  it('next to an older release: its deletion waits for an enqueue, and the next enqueue finds no queue', async () => {
    const enqueuer = await ourTransaction(store);
    await enqueuer.queues.enqueueMany([enqueued('a')]);
    const older = await transaction(store);
    const deleted = older.query(`delete from ${queues} where name = 'q'`);
    await waiting(store, 'delete from');
    await enqueuer.commit();
    await deleted;
    const next = store.storage.queues.enqueueMany([enqueued('b')]);
    await waiting(store, 'holdfast_hold_queues');
    await older.query('commit');
    expect(await next).toEqual(new Set());
  });
}

/** `repeatable read` and `serializable`: all queries of a transaction see the same snapshot. */
function inOneSnapshot(store: Store): void {
  const queues = store.table('queues');
  const serialization = { code: '40001' };
  const begin = 'begin isolation level repeatable read';

  it('in a transaction with one snapshot: a claim fails with an outdated lock version', async () => {
    await store.storage.queues.enqueueMany([enqueued('a')]);
    const { lockVersion } = await queueNamed(store.storage);
    const claim = await ourTransaction(store, begin);
    await claim.sql('select 1');
    await store.sql(`update ${queues} set turn = turn + 1, updated_at = updated_at + 1, paused = true`);
    const claimed = take({ ...store.storage, queues: claim.queues }, 1, { lockVersion });
    await expect(claimed).rejects.toMatchObject(serialization);
    expect(await statuses(store)).toEqual({ a: 'ENQUEUED' });
  });

  it('in a database with one snapshot by default: a queue with newly enqueued work is not deleted', async () => {
    await inDatabaseWithOneSnapshot(store);
    const common = { schema: schemaOf(store), migrate: false, logger: silent, applicationName: 'later' };
    const later = await openStorage({ url: store.url, ...common });
    onTestFinished(() => later.close());
    const enqueuer = await ourTransaction(store);
    await enqueuer.queues.enqueueMany([enqueued('a')]);
    const removed = later.queues.remove('q');
    await waiting(store, 'holdfast_close_queue');
    await enqueuer.commit();
    expect(await removed).toBe(false);
  });

  it.each([1, 100])('in a transaction with one snapshot: nothing is enqueued on a deleted queue (of %s)', async (n) => {
    for (let i = 1; i < n; i++) await register(store.storage, `q${i}`);
    const enqueuer = await ourTransaction(store, begin);
    await enqueuer.sql('select 1');
    await store.storage.queues.remove('q');
    const rows = Array.from({ length: n }, (_, i) => enqueued(`w${i}`, { queueName: i === 0 ? 'q' : `q${i}` }));
    await expect(enqueuer.queues.enqueueMany(rows)).rejects.toMatchObject(serialization);
  });
}

/** Sets the default isolation level of the database for new connections. */
async function inDatabaseWithOneSnapshot(store: Store): Promise<void> {
  const [row] = await store.sql('select current_database() as name');
  const alter = (change: string) => store.sql(`alter database "${row?.name}" ${change}`);
  onTestFinished(async () => void (await alter('reset default_transaction_isolation')));
  await alter("set default_transaction_isolation = 'repeatable read'");
}

function schemaOf(store: Store): string {
  return store.table('').slice(1, -2).replaceAll('""', '"');
}
