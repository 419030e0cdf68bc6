import { expect, it } from 'vitest';
import { describeStorage, idsOf, newStep, type Store, statuses } from './contract-support.js';
import {
  enqueued,
  ourTransaction,
  queueNamed,
  register,
  settings,
  take,
  transaction,
  waiting,
  withQueue,
} from './queue-support.js';

/**
 * Interleavings of two transactions on Postgres, step by step: the other transaction is open while the statement under
 * test waits for it, and commits then. SQLite has one writer at a time and none of these.
 */
describeStorage('two concurrent transactions on a queue', suite, ['postgres']);

function suite(store: Store): void {
  withQueue(store);
  const [workflows, queues] = [store.table('workflow_status'), store.table('queues')];
  const enqueue = (...ids: string[]) => store.storage.queues.enqueueMany(ids.map((id) => enqueued(id)));
  const turn = async () => (await queueNamed(store.storage)).lockVersion;

  it.each([
    ['a claim by another', `update ${queues} set turn = turn + 1`, true],
    ['an edit', `update ${queues} set turn = turn + 1, updated_at = updated_at + 1, concurrency = 1`, true],
    ['an edit', `update ${queues} set turn = turn + 1, updated_at = updated_at + 1, concurrency = 1`, false],
    ['a pause', `update ${queues} set turn = turn + 1, updated_at = updated_at + 1, paused = true`, false],
    ['a deletion', `delete from ${queues}`, true],
    ['a deletion', `delete from ${queues}`, false],
  ])('a claim that waits for %s takes nothing (%s, exclusive: %s)', async (_, change, exclusive) => {
    await enqueue('a');
    const known = await turn();
    const other = await transaction(store);
    await other.query(change);
    const claimed = take(store.storage, 1, { lockVersion: known, exclusive });
    await waiting(store, 'with known as');
    await other.query('commit');
    expect(await claimed).toEqual([]);
    expect(await statuses(store)).toEqual({ a: 'ENQUEUED' });
  });

  it('a pause waits for a claim that is not committed', async () => {
    await enqueue('a');
    const claim = await ourTransaction(store);
    const queue = await queueNamed(store.storage);
    expect(
      await idsOf(take({ ...store.storage, queues: claim.queues }, 1, { lockVersion: queue.lockVersion })),
    ).toEqual(['a']);
    const paused = store.storage.queues.change({ queue, settings: queue.settings, paused: true, now: 2000 });
    await waiting(store, 'paused = ');
    await claim.commit();
    expect(await paused).toMatchObject({ paused: true });
    expect(await statuses(store)).toEqual({ a: 'PENDING' });
  });

  it('claims that share a lock version do not wait for each other, and take different workflows', async () => {
    await enqueue('a', 'b');
    const first = await ourTransaction(store);
    const storage = { ...store.storage, queues: first.queues };
    const known = await turn();
    expect(await idsOf(take(storage, 1, { lockVersion: known }))).toEqual(['a']);
    expect(await idsOf(take(store.storage, 1, { lockVersion: known }))).toEqual(['b']);
    await first.commit();
  });

  it('a claim skips workflows that another transaction has changed, and takes the workflow behind them', async () => {
    await enqueue('a', 'b', 'c');
    const other = await transaction(store);
    await other.query(`update ${workflows} set status = 'CANCELLED' where workflow_uuid = 'a'`);
    await other.query(`update ${workflows} set priority = 9 where workflow_uuid = 'b'`);
    expect(await idsOf(take(store.storage, 1, { lockVersion: await turn() }))).toEqual(['c']);
    await other.query('commit');
    expect(await statuses(store)).toMatchObject({ a: 'CANCELLED', b: 'ENQUEUED' });
  });

  it('a claim from several partitions does not wait for a locked partition, or fail because of it', async () => {
    const rows = ['a', 'b', 'c'].map((partition) => enqueued(`in ${partition}`, { partition }));
    await store.storage.queues.enqueueMany(rows);
    const other = await transaction(store);
    await other.query(`select 1 from ${workflows} where queue_partition_key = 'b' for update`);
    const portions = ['a', 'b', 'c'].map((partition) => ({ partition, n: 1 }));
    const taken = take(store.storage, 0, { portions, lockVersion: await turn(), exclusive: true });
    expect(await idsOf(taken)).toEqual(['in a', 'in c']);
    await other.query('rollback');
  });

  it('a claim reports that a workflow ran, even if that owner ran and released it after the claim began', async () => {
    await enqueue('a');
    const known = await turn();
    const other = await transaction(store);
    await other.query(`select 1 from ${queues} for update`);
    const claimed = take(store.storage, 1, { lockVersion: known, exclusive: true, owner: 'second' });
    await waiting(store, 'with known as');
    const [first] = await take(store.storage, 1, { owner: 'first' });
    expect(first).toMatchObject({ workflowId: 'a', neverRan: true });
    await store.storage.steps.recordMany('app', [newStep('a', 0, { owner: 'first' })]);
    const owned = [{ workflowId: 'a', owner: 'first' }];
    await store.storage.workflows.release({ owned, queueName: 'q', now: 3000 });
    await other.query('rollback');
    expect(await claimed).toMatchObject([{ workflowId: 'a', owner: 'second', neverRan: false }]);
  });

  it('a queue is not removed while a workflow is being enqueued on it', async () => {
    const enqueuer = await ourTransaction(store);
    expect((await enqueuer.queues.enqueueMany([enqueued('a')])).size).toBe(1);
    const removed = store.storage.queues.remove('q');
    await waiting(store, 'queues');
    await enqueuer.commit();
    expect(await removed).toBe(false);
    expect(await queueNamed(store.storage)).toBeDefined();
  });

  it.each(['enqueueMany', 'enqueueAll'] as const)('%s stores nothing on a queue that is being removed', async (how) => {
    const remover = await ourTransaction(store);
    expect(await remover.queues.remove('q')).toBe(true);
    const enqueueing = store.storage.queues[how]([enqueued('a')]);
    await waiting(store, 'holdfast_hold_queues');
    await remover.commit();
    expect(await enqueueing).toEqual(new Set());
    expect(await statuses(store)).toEqual({});
  });

  it('enqueueing does not wait for claims and edits of its queue', async () => {
    const other = await transaction(store);
    await other.query(`update ${queues} set turn = turn + 1`);
    expect((await enqueue('a')).size).toBe(1);
    expect((await store.storage.queues.enqueueAll([enqueued('b')])).size).toBe(1);
    await other.query('commit');
    expect(await register(store.storage, 'q', settings({ concurrency: 1 }))).toBeDefined();
  });
}
