import { expect, it } from 'vitest';
import { describeStorage, idsOf } from './contract-support.js';
import { enqueued, inOrder, register, settings, take, takeTurn, transaction, withQueue } from './queue-support.js';

const writer = { executorId: 'claimer', appName: 'app' };
const runnable = [{ name: 'greet', maxRecoveryAttempts: 100 }];

/** Work of the own version and work without a version are at two places of the index, with other versions between. */
describeStorage('work of several versions on one queue', (store) => {
  withQueue(store);
  const asLatest = (name: string) => store.storage.versions.register({ name, appName: 'app', now: Date.now() });
  const versions = { own: 'v1', free: null, old: 'v0', new: 'v2' };

  /** Enqueues workflows in this order, each with the version that its name gives, for example `own 3`. */
  const enqueue = (names: readonly string[], more: object = {}) =>
    store.storage.queues.enqueueAll(
      names.map((name) => {
        const kind = name.split(' ')[0] as keyof typeof versions;
        return enqueued(name, { version: versions[kind], ...more });
      }),
    );
  const mixed = ['old 1', 'free 1', 'own 1', 'new 1', 'own 2', 'free 2', 'free 3', 'old 2', 'own 3'];
  const claimable = ['free 1', 'own 1', 'own 2', 'free 2', 'free 3', 'own 3'];

  it('is taken in one order: work of the own version, and for the latest also work without a version', async () => {
    await asLatest('v1');
    await enqueue(mixed);
    await enqueue(['free urgent', 'old urgent'], { priority: -1 });
    await enqueue(['own late', 'free late'], { priority: 1 });
    expect(await inOrder(store.storage)).toEqual(['free urgent', ...claimable, 'own late', 'free late']);
  });

  it.each([1, 2, 3, 4, 5, 6, 7])('is taken from the head of that order by a claim of %i', async (n) => {
    await asLatest('v1');
    await enqueue(mixed);
    expect((await idsOf(take(store.storage, n))).sort()).toEqual(claimable.slice(0, n).sort());
  });

  it('is taken in the same order in each partition', async () => {
    await register(store.storage, 'q', settings({}, {}));
    await asLatest('v1');
    for (const partition of ['a', 'b']) {
      await enqueue(
        mixed.map((name) => `${name} ${partition}`),
        { partition },
      );
    }
    const portions = ['a', 'b'].map((partition) => ({ partition, n: 3 }));
    const taken = (await idsOf(take(store.storage, 0, { portions }))).sort();
    expect(taken).toEqual(claimable.slice(0, 3).flatMap((name) => [`${name} a`, `${name} b`]));
  });

  it('is taken only by the latest version if it has no version', async () => {
    await asLatest('v1');
    await asLatest('v2');
    await enqueue(mixed);
    expect(await inOrder(store.storage)).toEqual(['own 1', 'own 2', 'own 3']);
  });

  it('shows a process only the partitions that hold work for its version', async () => {
    await register(store.storage, 'q', settings({}, {}));
    await asLatest('v1');
    for (const [name, partition] of [
      ['old 1', 'a'],
      ['free 1', 'b'],
      ['new 1', 'c'],
      ['own 1', 'd'],
      ['own 2', 'b'],
    ]) {
      await enqueue([name as string], { partition });
    }
    const look = { queueName: 'q', writer, version: 'v1', runnable, limit: 10, rate: null, suspects: false };
    const seen = async (after: string, waitingUpTo = 10) =>
      (await store.storage.queues.partitions({ ...look, after, waitingUpTo })).map((each) => [
        each.partition,
        each.waiting,
      ]);
    const all = [
      ['b', 2],
      ['d', 1],
    ];
    expect(await seen('')).toEqual(all);
    expect(await seen('b')).toEqual(all.slice(1));
    expect(await seen('', 1)).toEqual([
      ['b', 1],
      ['d', 1],
    ]);
  });

  it.skipIf(store.backend !== 'postgres')('is skipped while others take it, and reported as left', async () => {
    await asLatest('v1');
    await enqueue(['own 1', 'free 1', 'own 2', 'free 2', 'free 3', 'free 4']);
    const other = await transaction(store);
    const table = store.table('workflow_status');
    await other.query(`select 1 from ${table} where workflow_uuid in ('own 1', 'own 2') for update`);
    const { claimed, mixed: leftOver } = await takeTurn(store.storage, 4);
    // Two of the first four are locked. The claim leaves one workflow behind them, and the next claim takes it.
    expect(claimed.map((record) => record.workflowId).sort()).toEqual(['free 1', 'free 2']);
    expect(leftOver).toBe(true);
    await other.query('rollback');
    expect(await idsOf(take(store.storage, 4))).toHaveLength(4);
  });
});
