import { expect, it } from 'vitest';
import type { EnqueuedWorkflow } from '../../src/storage/contract/storage.js';
import { describeStorage, finished, type Store } from './contract-support.js';
import { enqueued, register, settings, take, withQueue } from './queue-support.js';

const writer = { executorId: 'claimer', appName: 'app' };
const runnable = [{ name: 'greet', maxRecoveryAttempts: 100 }];

/** Starts these workflows at this instant, as starts that count for a rate limit. */
async function startAt(store: Store, now: number, rows: readonly EnqueuedWorkflow[], rateLimited = true) {
  await store.storage.queues.enqueueMany(rows);
  const keys = [...new Set(rows.map((row) => row.partition))];
  const portions = keys.map((partition) => ({ partition, n: rows.length }));
  const taken = await take(store.storage, 0, { portions, now, rateLimited, owner: 'claim' });
  expect(taken).toHaveLength(rows.length);
}

describeStorage('the usage of a queue', (store) => {
  withQueue(store);
  const usage = async (rate: { max: number; since: number } | null = null) =>
    (await store.storage.queues.usage({ name: 'q', executorId: 'claimer', rate }))?.usage;

  it('counts running work, but no work that waits, is delayed, has ended or is on another queue', async () => {
    await register(store.storage, 'other');
    await startAt(store, 5000, [enqueued('a'), enqueued('b'), enqueued('ended')]);
    await startAt(store, 5000, [enqueued('version', { version: 'v1' })], false);
    await store.storage.workflows.finishMany([finished('ended', { owner: 'claim' })]);
    await store.storage.queues.enqueueMany([
      enqueued('waits'),
      enqueued('delayed', { delayUntil: 9000 }),
      enqueued('elsewhere', { queueName: 'other' }),
    ]);
    await take(store.storage, 1, { queueName: 'other' });
    expect(await usage()).toEqual({ running: 3, elsewhere: 0, recentStarts: 0, nextStartAt: null });
  });

  it('separates work that runs elsewhere from the work of the caller', async () => {
    await startAt(store, 5000, [enqueued('a'), enqueued('b')]);
    await store.storage.queues.enqueueMany([enqueued('c'), enqueued('d')]);
    await take(store.storage, 1, { writer: { executorId: 'other', appName: 'app' } });
    await take(store.storage, 1);
    await store.sql(`update ${store.table('workflow_status')} set executor_id = null where workflow_uuid = 'd'`);
    expect(await usage()).toMatchObject({ running: 4, elsewhere: 2 });
  });

  it('counts the running work of another version, but not its waiting work', async () => {
    const old = { version: 'v0' };
    await store.storage.queues.enqueueMany([enqueued('a', old), enqueued('b', old)]);
    await take(store.storage, 1, { version: 'v0' });
    expect(await usage()).toMatchObject({ running: 1 });
  });

  it('includes the queue of the same snapshot, and if anything waits', async () => {
    const seen = () => store.storage.queues.usage({ name: 'q', executorId: 'claimer', rate: null });
    expect(await seen()).toMatchObject({ waiting: false, queue: { name: 'q', paused: false } });
    await store.storage.queues.enqueueMany([enqueued('a')]);
    const before = await seen();
    expect(before).toMatchObject({ waiting: true });
    await take(store.storage, 1, { lockVersion: before?.queue.lockVersion as number, exclusive: true });
    const after = await seen();
    expect(after).toMatchObject({ waiting: false, usage: { running: 1 } });
    expect(after?.queue.lockVersion).not.toBe(before?.queue.lockVersion);
    expect(await store.storage.queues.usage({ name: 'nowhere', executorId: 'claimer', rate: null })).toBeUndefined();
  });

  it('counts each marked start of the period, and returns the start that must expire before the next', async () => {
    await startAt(store, 1000, [enqueued('a'), enqueued('b')]);
    await startAt(store, 2000, [enqueued('c')]);
    await startAt(store, 2500, [enqueued('unmarked')], false);
    await startAt(store, 3000, [enqueued('d')]);
    await store.storage.workflows.finishMany([finished('c', { owner: 'claim' })]);
    // With a limit of three, d, c and one start at 1000 fill the limit. The next start is possible when it expires.
    expect(await usage({ max: 3, since: 999 })).toMatchObject({ recentStarts: 4, nextStartAt: 1000 });
    expect(await usage({ max: 2, since: 999 })).toMatchObject({ recentStarts: 4, nextStartAt: 2000 });
    expect(await usage({ max: 1, since: 999 })).toMatchObject({ recentStarts: 4, nextStartAt: 3000 });
    expect(await usage({ max: 3, since: 1000 })).toMatchObject({ recentStarts: 2, nextStartAt: null });
    expect(await usage({ max: 9, since: 0 })).toMatchObject({ recentStarts: 4, nextStartAt: null });
    expect(await usage({ max: 1, since: 3000 })).toMatchObject({ recentStarts: 0, nextStartAt: null });
  });

  it('still counts the start of work that was recovered or released afterwards', async () => {
    await startAt(store, 1000, [enqueued('a')]);
    await store.storage.workflows.release({ owned: [{ workflowId: 'a', owner: 'claim' }], queueName: 'q', now: 1100 });
    expect(await usage({ max: 1, since: 500 })).toMatchObject({
      ...{ running: 0, recentStarts: 1, nextStartAt: 1000 },
    });
  });
});

describeStorage('the usage of partitions', (store) => {
  withQueue(store);
  const look = (more: Partial<Parameters<typeof store.storage.queues.partitions>[0]> = {}) =>
    store.storage.queues.partitions({
      ...{ writer, version: 'v1', runnable, queueName: 'q', after: '', limit: 200, waitingUpTo: 10 },
      ...{ rate: null, suspects: false, ...more },
    });
  const enqueue = (rows: readonly [string, string, Partial<EnqueuedWorkflow>?][]) =>
    store.storage.queues.enqueueMany(rows.map(([id, partition, more]) => enqueued(id, { partition, ...(more ?? {}) })));
  const keysAfter = async (after: string, limit = 200) => (await look({ after, limit })).map((each) => each.partition);

  it('is counted separately for each partition in which something waits', async () => {
    await startAt(store, 1000, [
      enqueued('a1', { partition: 'a' }),
      enqueued('a2', { partition: 'a' }),
      enqueued('b1', { partition: 'b' }),
      enqueued('gone', { partition: 'idle' }),
    ]);
    await enqueue([
      ['a3', 'a'],
      ['b2', 'b'],
      ['b3', 'b'],
      ['c1', 'c'],
    ]);
    const rate = { max: 1, since: 500 };
    expect(await look({ rate })).toEqual([
      { partition: 'a', waiting: 1, running: 2, recentStarts: 2, nextStartAt: 1000 },
      { partition: 'b', waiting: 2, running: 1, recentStarts: 1, nextStartAt: 1000 },
      { partition: 'c', waiting: 1, running: 0, recentStarts: 0, nextStartAt: null },
    ]);
  });

  it('counts waiting work up to the given number, and only work that the caller can take', async () => {
    await enqueue([
      ...Array.from({ length: 8 }, (_, i): [string, string] => [`w${i}`, 'many']),
      ['x', 'others', { version: 'v0' }],
      ['y', 'others', { name: 'unknown' }],
      ['z', 'others'],
    ]);
    expect(await look({ waitingUpTo: 5 })).toMatchObject([
      { partition: 'many', waiting: 5 },
      { partition: 'others', waiting: 1 },
    ]);
    await store.sql(`update ${store.table('workflow_status')} set recovery_attempts = 60 where workflow_uuid = 'w0'`);
    expect(await look()).toMatchObject([{ waiting: 7 }, { waiting: 1 }]);
    expect(await look({ suspects: true })).toMatchObject([{ waiting: 1 }]);
  });

  it('is listed in the order of the keys, after a given key and up to a limit', async () => {
    await enqueue(['m', 'b', 'Z', 'é', '10', '9'].map((key): [string, string] => [`w ${key}`, key]));
    const all = await keysAfter('');
    expect(new Set(all)).toEqual(new Set(['m', 'b', 'Z', 'é', '10', '9']));
    expect(await keysAfter('', 2)).toEqual(all.slice(0, 2));
    expect(await keysAfter(all[1] as string, 3)).toEqual(all.slice(2, 5));
    expect(await keysAfter(all[5] as string)).toEqual([]);
  });

  it('pages through 600 partitions and lists each once', async () => {
    const keys = Array.from({ length: 600 }, (_, i) => `tenant ${(i * 7919) % 600}`);
    await store.storage.queues.enqueueAll(keys.map((partition, i) => enqueued(`w${i}`, { partition })));
    const met: string[] = [];
    for (let after = ''; ; ) {
      const page = await keysAfter(after, 200);
      met.push(...page);
      if (page.length < 200) break;
      after = page.at(-1) as string;
    }
    expect(met).toHaveLength(600);
    expect(new Set(met)).toEqual(new Set(keys));
    // The order does not depend on the size of the pages.
    expect(await keysAfter('', 1000)).toEqual(met);
  });

  it('is empty for a queue where nothing waits in a partition', async () => {
    await store.storage.queues.enqueueMany([enqueued('keyless'), enqueued('d', { partition: 'p', delayUntil: 9 })]);
    expect(await look()).toEqual([]);
    await register(store.storage, 'q', settings({}, {}));
    expect(await keysAfter('')).toEqual(['(none)']);
  });
});
