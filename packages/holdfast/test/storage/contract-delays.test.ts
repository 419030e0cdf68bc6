import { expect, it } from 'vitest';
import { internalQueue } from '../../src/model/queues.js';
import type { DebouncedWorkflow, Storage } from '../../src/storage/contract/storage.js';
import { describeStorage, finished, type Store, statuses } from './contract-support.js';
import { debounced, enqueued, inOrder, take, transaction, withQueue } from './queue-support.js';

describeStorage('delayed workflows', (store) => {
  withQueue(store);
  const promote = (now: number, limit = 100, storage = store.storage) =>
    storage.queues.promoteDue({ now, limit }).then((queues) => queues.sort());
  const delay = (id: string, delayUntil: number, dedupId: string | null = null) =>
    store.storage.queues.enqueueMany([enqueued(id, { delayUntil, dedupId })]);

  it('move to their queue when their time comes, and not before', async () => {
    await delay('a', 2000);
    await delay('b', 2001);
    expect(await promote(1999)).toEqual([]);
    expect(await promote(2000)).toEqual(['q']);
    expect(await statuses(store)).toEqual({ a: 'ENQUEUED', b: 'DELAYED' });
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ updatedAt: 2000, createdAt: 1000 }]);
    expect(await promote(9000)).toEqual(['q']);
    expect(await promote(9000)).toEqual([]);
  });

  it('are not claimed from a queue before their time', async () => {
    await delay('a', 2000);
    expect(await take(store.storage, 10)).toEqual([]);
  });

  it('become due in the order of their times, up to the limit', async () => {
    for (const [i, at] of [30, 10, 50, 20, 40].entries()) await delay(`w${i} at ${at}`, at);
    expect(await promote(100, 2)).toHaveLength(2);
    expect(Object.entries(await statuses(store)).filter(([, status]) => status === 'ENQUEUED')).toEqual(
      expect.arrayContaining([
        ['w1 at 10', 'ENQUEUED'],
        ['w3 at 20', 'ENQUEUED'],
      ]),
    );
    expect(await promote(100, 2)).toHaveLength(2);
    expect(await promote(100, 2)).toHaveLength(1);
  });

  it('keep their deduplication ID until they have ended', async () => {
    await delay('a', 2000, 'd');
    await promote(2000);
    expect(await store.storage.queues.holders([{ queueName: 'q', dedupId: 'd' }])).toMatchObject([{ workflowId: 'a' }]);
  });

  it('become due once each, even if several processes promote them at once', async () => {
    for (let i = 0; i < 60; i++) await delay(`w${i}`, 2000);
    const storages = [store.storage, await store.another(), await store.another()];
    const counts = await Promise.all(
      Array.from({ length: 30 }, (_, i) => promote(2000, 7, storages[i % 3]).then((queues) => queues.length)),
    );
    const rest = await promote(2000, 100);
    expect(counts.reduce((sum, n) => sum + n, rest.length)).toBe(60);
    expect(await inOrder(store.storage)).toHaveLength(60);
  });

  it('can be postponed, moved forward and given another priority while they wait', async () => {
    const { queues, workflows } = store.storage;
    await delay('a', 2000);
    await delay('b', 2000);
    expect(await queues.setDelay({ workflowId: 'a', delayUntil: 3000, now: 1500 })).toBe('q');
    expect(await queues.setPriority({ workflowId: 'a', priority: 3, now: 1600 })).toBe('q');
    expect(await workflows.get(['a'])).toMatchObject([{ delayUntil: 3000, priority: 3, updatedAt: 1600 }]);
    await promote(2000);
    expect(await queues.setDelay({ workflowId: 'b', delayUntil: 9000, now: 2500 })).toBeUndefined();
    expect(await queues.setPriority({ workflowId: 'b', priority: 5, now: 2500 })).toBe('q');
    await promote(3000);
    expect(await inOrder(store.storage)).toEqual(['a', 'b']);
    expect(await queues.setPriority({ workflowId: 'b', priority: 1, now: 4000 })).toBeUndefined();
    expect(await queues.setDelay({ workflowId: 'nobody', delayUntil: 1, now: 1 })).toBeUndefined();
    expect(await queues.setPriority({ workflowId: 'nobody', priority: 1, now: 1 })).toBeUndefined();
  });

  if (store.backend === 'postgres') {
    it('become due past a locked workflow, which follows when its lock is released', async () => {
      await delay('held', 1000);
      await delay('free', 2000);
      const other = await transaction(store);
      await other.query(`select 1 from ${store.table('workflow_status')} where workflow_uuid = 'held' for update`);
      expect(await promote(5000, 1)).toEqual(['q']);
      expect(await statuses(store)).toEqual({ held: 'DELAYED', free: 'ENQUEUED' });
      await other.query('rollback');
      expect(await promote(5000, 1)).toEqual(['q']);
    });
  }
});

describeStorage('debounced workflows', (store) => {
  withQueue(store);
  const debounce = (id: string, more: Partial<DebouncedWorkflow> = {}) =>
    store.storage.queues.debounce(debounced(id, more));
  /** A debouncer call at this time, with a wait of 500 ms. */
  const callAt = (id: string, now: number, more: Partial<DebouncedWorkflow> = {}) =>
    debounce(id, { createdAt: now, delayUntil: now + 500, inputs: `["${id}"]`, ...more });

  it('start with the first call, and take the input and the time of each later call', async () => {
    expect(await callAt('a', 1000)).toEqual({ workflowId: 'a', delayUntil: 1500 });
    expect(await callAt('b', 1200, { serialization: 'portable_json' })).toEqual({
      workflowId: 'a',
      delayUntil: 1700,
    });
    expect(await store.storage.workflows.list({})).toMatchObject([
      {
        ...{ workflowId: 'a', status: 'DELAYED', inputs: '["b"]', serialization: 'portable_json', attempts: 0 },
        ...{ createdAt: 1000, updatedAt: 1200, delayUntil: 1700, dedupId: 'key', queueName: 'q' },
      },
    ]);
  });

  it('wait no longer than the timeout from the first call, even if the first wait is longer', async () => {
    expect(await callAt('a', 1000, { debounceTimeoutMs: 800 })).toMatchObject({ delayUntil: 1500 });
    expect(await callAt('b', 1200, { debounceTimeoutMs: 800 })).toMatchObject({ delayUntil: 1700 });
    expect(await callAt('c', 1600, { debounceTimeoutMs: 800 })).toMatchObject({ delayUntil: 1800 });
    expect(await callAt('d', 1700, { debounceTimeoutMs: 800 })).toMatchObject({ workflowId: 'a', delayUntil: 1800 });
    expect(await callAt('e', 1000, { dedupId: 'e', debounceTimeoutMs: 100 })).toMatchObject({ delayUntil: 1100 });
  });

  it('take the earlier of two timeouts, and count a later timeout from the first call too', async () => {
    await callAt('a', 1000);
    expect(await callAt('b', 1400, { debounceTimeoutMs: 700 })).toMatchObject({ delayUntil: 1700 });
    expect(await callAt('c', 1500, { debounceTimeoutMs: 9000 })).toMatchObject({ delayUntil: 1700 });
    expect(await callAt('d', 1500)).toMatchObject({ workflowId: 'a', delayUntil: 1700 });
  });

  it('begin again after the last one became due and gave its key back', async () => {
    await callAt('a', 1000);
    expect(await store.storage.queues.promoteDue({ now: 1500, limit: 10 })).toEqual(['q']);
    expect(await callAt('b', 1501)).toMatchObject({ workflowId: 'b' });
    expect(await store.storage.workflows.list({})).toMatchObject([
      { workflowId: 'a', status: 'ENQUEUED', inputs: '["a"]', dedupId: null },
      { workflowId: 'b', status: 'DELAYED', inputs: '["b"]', dedupId: 'key' },
    ]);
  });

  it('begin again after the last one was cancelled', async () => {
    await callAt('a', 1000);
    await store.storage.workflows.cancel({ workflowIds: ['a'], reason: null, now: 1100 });
    expect(await callAt('b', 1200)).toMatchObject({ workflowId: 'b' });
  });

  it('are separate from other keys, other queues and other workflows', async () => {
    await callAt('a', 1000);
    expect(await callAt('b', 1000, { dedupId: 'other' })).toMatchObject({ workflowId: 'b' });
    expect(await callAt('c', 1000, { name: 'other' })).toBeUndefined();
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ inputs: '["a"]', delayUntil: 1500 }]);
  });

  it('do not change a workflow that holds the key and is not debounced', async () => {
    await store.storage.queues.enqueueMany([
      enqueued('plain', { dedupId: 'key' }),
      enqueued('delayed', { dedupId: 'key 2', delayUntil: 9000 }),
    ]);
    const before = await store.storage.workflows.list({});
    expect(await callAt('a', 1000)).toBeUndefined();
    expect(await callAt('b', 1000, { dedupId: 'key 2' })).toBeUndefined();
    expect(await store.storage.workflows.list({})).toEqual(before);
  });

  it('are not stored on a queue that does not exist', async () => {
    expect(await callAt('a', 1000, { queueName: 'nowhere' })).toBeUndefined();
    expect(await store.storage.workflows.list({})).toEqual([]);
    expect(await callAt('b', 1000, { queueName: internalQueue })).toMatchObject({ workflowId: 'b' });
  });

  it('refuse the ID of an existing workflow, under any key', async () => {
    await callAt('a', 1000);
    await store.storage.queues.promoteDue({ now: 5000, limit: 10 });
    const refusal = await callAt('a', 6000).catch((error) => error);
    expect(store.storage.classify(refusal)).toBe('refused');
    expect(await statuses(store)).toEqual({ a: 'ENQUEUED' });
  });

  it('merge 100 calls from several processes into one run, with the input of the last call written', async () => {
    const storages = [store.storage, await store.another(), await store.another()];
    const call = (_: unknown, i: number) => raceCall(storages[i % 3] as Storage, i);
    const answers = await Promise.all(Array.from({ length: 100 }, call));
    expect(new Set(answers.map((answer) => answer?.workflowId)).size).toBe(1);
    const [only, ...others] = await store.storage.workflows.list({});
    expect(others).toEqual([]);
    // Each call has its own time. The row has the time and the input of the call that was written last.
    expect(only?.inputs).toBe(`[${Number(only?.delayUntil) - 10_000}]`);
  });

  it('lose no input if a call arrives at the moment in which the run becomes due', async () => {
    const other = await store.another();
    for (let round = 0; round < 30; round++) await raceWithPromotion(store, other, round);
  });
});

function raceCall(storage: Storage, i: number) {
  return storage.queues.debounce(debounced(`w${i}`, { inputs: `[${i}]`, delayUntil: 10_000 + i }));
}

/** Races a call against the end of the wait: the call still belongs to that run, or begins another run. */
async function raceWithPromotion(store: Store, other: Storage, round: number): Promise<void> {
  const [first, second] = [`${round}-first`, `${round}-second`];
  const key = `key ${round}`;
  await store.storage.queues.debounce(debounced(first, { dedupId: key, inputs: '["first"]' }));
  const call = (): Promise<unknown> =>
    store.storage.queues.debounce(debounced(second, { dedupId: key, inputs: '["second"]', delayUntil: 1600 }));
  const promote = (): Promise<unknown> => other.queues.promoteDue({ now: 1500, limit: 1000 });
  await Promise.all((round % 2 ? [call, promote] : [promote, call]).map((act) => act()));
  await store.storage.queues.promoteDue({ now: 1600, limit: 1000 });
  const rows = await store.storage.workflows.get([first, second]);
  expect(rows.map((row) => row.status)).toEqual(rows.map(() => 'ENQUEUED'));
  const inputs = new Map(rows.map((row) => [row.workflowId, row.inputs]));
  expect(inputs.get(second) ?? inputs.get(first)).toBe('["second"]');
  if (inputs.has(second)) expect(inputs.get(first)).toBe('["first"]');
  for (const { workflowId } of await take(store.storage, 10)) {
    await store.storage.workflows.finishMany([finished(workflowId, { owner: 'claim' })]);
  }
}
