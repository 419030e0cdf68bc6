import { expect, it } from 'vitest';
import { describeStorage, idsOf } from './contract-support.js';
import { enqueued, inOrder, register, settings, take, takeTurn, transaction, withQueue } from './queue-support.js';

const writer = { executorId: 'claimer', appName: 'app' };
const runnable = [{ name: 'greet', maxRecoveryAttempts: 100 }];

/** Work of one's own version and of none is in two places of the index, with that of others before and between. */
describeStorage('work of several versions on one queue', (store) => {
  withQueue(store);
  const asLatest = (name: string) => store.storage.versions.register({ name, appName: 'app', now: Date.now() });
  const versions = { own: 'v1', free: null, old: 'v0', new: 'v2' };

  /** Enqueued in this order, each as its name says: `own 3`. */
  const enqueue = (names: readonly string[], more: object = {}) =>
    store.storage.workflows.enqueueAll(
      names.map((name) => {
        const kind = name.split(' ')[0] as keyof typeof versions;
        return enqueued(name, { version: versions[kind], ...more });
      }),
    );
  const mixed = ['old 1', 'free 1', 'own 1', 'new 1', 'own 2', 'free 2', 'free 3', 'old 2', 'own 3'];
  const claimable = ['free 1', 'own 1', 'own 2', 'free 2', 'free 3', 'own 3'];

  it('is taken in one order: what is of the own version, and what is of none by the latest', async () => {
    await asLatest('v1');
    await enqueue(mixed);
    await enqueue(['free urgent', 'old urgent'], { priority: -1 });
    await enqueue(['own late', 'free late'], { priority: 1 });
    expect(await inOrder(store.storage)).toEqual(['free urgent', ...claimable, 'own late', 'free late']);
  });

  it.each([1, 2, 3, 4, 5, 6, 7])('is taken from the head of that order when %i are wanted at once', async (n) => {
    await asLatest('v1');
    await enqueue(mixed);
    expect((await idsOf(take(store.storage, n))).sort()).toEqual(claimable.slice(0, n).sort());
  });

  it('is taken in that order in each partition', async () => {
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

  it('is not taken by another than the latest version if it is of none', async () => {
    await asLatest('v1');
    await asLatest('v2');
    await enqueue(mixed);
    expect(await inOrder(store.storage)).toEqual(['own 1', 'own 2', 'own 3']);
  });

  it('has for a process only the partitions in which something is for its version', async () => {
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

  it.skipIf(store.backend !== 'postgres')('is passed over while others take it, and said to be left', async () => {
    await asLatest('v1');
    await enqueue(['own 1', 'free 1', 'own 2', 'free 2', 'free 3', 'free 4']);
    const other = await transaction(store);
    const table = store.table('workflow_status');
    await other.query(`select 1 from ${table} where workflow_uuid in ('own 1', 'own 2') for update`);
    const { claimed, mixed: leftOver } = await takeTurn(store.storage, 4);
    // Of the first four, two are held. One of those behind them could have been taken as well: the next claim does.
    expect(claimed.map((record) => record.workflowId).sort()).toEqual(['free 1', 'free 2']);
    expect(leftOver).toBe(true);
    await other.query('rollback');
    expect(await idsOf(take(store.storage, 4))).toHaveLength(4);
  });
});
