import { describe, expect, it } from 'vitest';
import type { DequeueParams, EnqueuedWorkflow, Portion } from '../../src/storage/contract/storage.js';
import { describeStorage, finished, idsOf, newRetry, newStep, start, statuses, takeOver } from './contract-support.js';
import { enqueued, inOrder, queueNamed, register, take, takeTurn, withQueue } from './queue-support.js';

const ids = (from: number, to: number, prefix = 'w'): string[] =>
  Array.from({ length: to - from }, (_, i) => `${prefix}${from + i}`);

describeStorage('the order of a queue', (store) => {
  withQueue(store);
  const enqueue = (...rows: EnqueuedWorkflow[]) => store.storage.queues.enqueueMany(rows);
  const table = store.table('workflow_status');

  it('is by priority, lowest first, then by enqueueing, regardless of clocks', async () => {
    await enqueue(enqueued('late', { priority: 5, createdAt: 1 }), enqueued('a', { createdAt: 9000 }));
    await enqueue(enqueued('b', { createdAt: 10 }));
    await enqueue(enqueued('c', { createdAt: 9000 }), enqueued('last', { priority: 2 ** 31 - 1, createdAt: 0 }));
    expect(await inOrder(store.storage)).toEqual(['a', 'b', 'c', 'late', 'last']);
  });

  it('is kept by work that is delayed, released or recovered: the work returns to its place', async () => {
    await enqueue(enqueued('a', { delayUntil: 2000 }), enqueued('b'));
    await enqueue(enqueued('c'), enqueued('d'));
    await store.storage.queues.promoteDue({ now: 2000, limit: 10 });
    await take(store.storage, 2, { owner: 'released' });
    await take(store.storage, 1, { owner: 'recovered', writer: { executorId: 'dead', appName: 'app' } });
    const owned = ['a', 'b'].map((workflowId) => ({ workflowId, owner: 'released' }));
    await store.storage.workflows.release({ owned, queueName: 'x', now: 3000 });
    const dead = { version: 'v1', owner: 'o', now: 1, limit: 10, executorIds: ['dead'] };
    const runnable = [{ name: 'greet', maxRecoveryAttempts: 100 }];
    const writer = { executorId: 'e', appName: 'app' };
    await takeOver(store.storage, { ...dead, runnable, writer });
    expect(await inOrder(store.storage)).toEqual(['a', 'b', 'c', 'd']);
  });

  it('begins with rows from before the order existed, oldest first', async () => {
    await enqueue(enqueued('new', { createdAt: 1 }), enqueued('old', { createdAt: 300 }));
    await enqueue(enqueued('older', { createdAt: 200 }), enqueued('urgent', { priority: 0, createdAt: 400 }));
    await store.sql(`update ${table} set enqueue_seq = null where workflow_uuid in ('old', 'older')`);
    expect(await inOrder(store.storage)).toEqual(['older', 'old', 'new', 'urgent']);
  });

  if (store.backend === 'postgres') {
    it('includes work that the SQL function enqueues', async () => {
      const call = (id: string) =>
        store.sql(
          `select ${store.table('enqueue_workflow')}('greet', 'q', workflow_id => '${id}', app_version => 'v1')`,
        );
      await enqueue(enqueued('1'), enqueued('2', { createdAt: 2 ** 45 }));
      await call('3');
      await enqueue(enqueued('4', { createdAt: 1 }));
      await call('5');
      await store.storage.queues.enqueueAll([enqueued('7'), enqueued('6')]);
      expect(await inOrder(store.storage)).toEqual(['1', '2', '3', '4', '5', '7', '6']);
    });
  }
});

describeStorage('taking work from a queue', (store) => {
  withQueue(store);
  const enqueue = (...rows: EnqueuedWorkflow[]) => store.storage.queues.enqueueMany(rows);
  const table = store.table('workflow_status');

  it('makes the work PENDING under the claimer’s token, started now, with one more attempt', async () => {
    await enqueue(enqueued('a', { timeoutMs: 100 }), enqueued('b', { deadlineAt: 5050, timeoutMs: 100 }));
    await enqueue(enqueued('c', { version: null, appName: null, deadlineAt: 7000 }));
    await store.storage.versions.register({ name: 'v1', appName: 'app', now: 1 });
    const taken = await take(store.storage, 10, { owner: 'fresh', now: 5000 });
    const common = { status: 'PENDING', owner: 'fresh', executorId: 'claimer', attempts: 1, startedAt: 5000 };
    const placed = { ...common, updatedAt: 5000, createdAt: 1000, version: 'v1', appName: 'app', completedAt: null };
    const stored = await store.storage.workflows.list({});
    expect(stored).toMatchObject([
      { ...placed, workflowId: 'a', deadlineAt: 5100 },
      { ...placed, workflowId: 'b', deadlineAt: 5050 },
      { ...placed, workflowId: 'c', deadlineAt: 7000 },
    ]);
    for (const row of taken) {
      expect(stored.find(({ workflowId }) => workflowId === row.workflowId)).toMatchObject({ ...row, neverRan: false });
    }
    expect(taken).toHaveLength(3);
  });

  it('takes work without a version only for the latest version', async () => {
    await enqueue(enqueued('a', { version: null }));
    const { versions } = store.storage;
    expect(await take(store.storage, 1)).toEqual([]);
    await versions.register({ name: 'v1', appName: 'app', now: 1 });
    await versions.register({ name: 'v2', appName: 'app', now: 2 });
    await versions.register({ name: 'v9', appName: 'another app', now: 3 });
    expect(await take(store.storage, 1)).toEqual([]);
    await versions.setLatest({ name: 'v1', appName: 'app', now: 4 });
    expect(await take(store.storage, 1, { version: 'v2' })).toEqual([]);
    expect(await idsOf(take(store.storage, 1))).toEqual(['a']);
  });

  it('skips other apps, other versions, unknown names and classes, and takes the work behind them', async () => {
    await enqueue(enqueued('class'), enqueued('version', { version: 'v2' }), enqueued('app', { appName: 'other' }));
    await enqueue(enqueued('name', { name: 'unknown' }), enqueued('nameless'), enqueued('fine', { priority: 9 }));
    await store.sql(`update ${table} set class_name = 'Greeter' where workflow_uuid = 'class'`);
    await store.sql(`update ${table} set name = null where workflow_uuid = 'nameless'`);
    expect(await idsOf(take(store.storage, 1))).toEqual(['fine']);
    expect(await take(store.storage, 10, { runnable: [] })).toEqual([]);
    expect(Object.values(await statuses(store)).filter((status) => status === 'ENQUEUED')).toHaveLength(5);
  });

  it('marks work that counts for a rate limit, and unmarks work that no longer counts', async () => {
    await enqueue(enqueued('a'), enqueued('b'));
    await take(store.storage, 1, { rateLimited: true });
    await take(store.storage, 1);
    const marked = () => store.sql(`select workflow_uuid as id from ${table} where rate_limited = true`);
    expect(await marked()).toEqual([{ id: 'a' }]);
    await store.storage.workflows.release({ owned: [{ workflowId: 'a', owner: 'claim' }], queueName: 'q', now: 6000 });
    expect(await marked()).toEqual([{ id: 'a' }]);
    await take(store.storage, 1);
    expect(await marked()).toEqual([]);
  });

  it('takes work with half of its attempts used separately, and gives up work without attempts left', async () => {
    await enqueue(...ids(0, 6).map((id) => enqueued(id)));
    for (const [i, attempts] of [0, 1, 2, 3, 4, 5].entries()) {
      await store.sql(`update ${table} set recovery_attempts = ${attempts} where workflow_uuid = 'w${i}'`);
    }
    const runnable = [{ name: 'greet', maxRecoveryAttempts: 4 }];
    expect(await idsOf(take(store.storage, 10, { runnable }))).toEqual(['w0', 'w1']);
    const suspects = await take(store.storage, 10, { runnable, suspects: true, now: 6000 });
    expect(suspects.map((row) => [row.workflowId, row.status, row.attempts]).sort()).toEqual([
      ['w2', 'PENDING', 3],
      ['w3', 'PENDING', 4],
      ['w4', 'PENDING', 5],
      ['w5', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', 6],
    ]);
    expect(await store.storage.workflows.get(['w5'])).toMatchObject([{ completedAt: 6000 }]);
  });

  it('takes work that was never tried with the rest, even if only one attempt is allowed', async () => {
    await enqueue(enqueued('a'));
    const runnable = [{ name: 'greet', maxRecoveryAttempts: 0 }];
    expect(await take(store.storage, 1, { runnable, suspects: true })).toEqual([]);
    const [given] = await take(store.storage, 1, { runnable });
    expect(given).toMatchObject({ workflowId: 'a', attempts: 1 });
  });

  describe('reports work that never ran', () => {
    const never = async (more: Partial<DequeueParams> = {}) =>
      (await take(store.storage, 10, more)).map((row) => row.neverRan);

    it('when it was just enqueued, but not after it was released', async () => {
      await enqueue(enqueued('a'));
      expect(await never()).toEqual([true]);
      await store.storage.steps.recordMany('app', [newStep('a', 0, { owner: 'claim' })]);
      await store.storage.workflows.release({ owned: [{ workflowId: 'a', owner: 'claim' }], queueName: 'q', now: 1 });
      expect(await never()).toEqual([false]);
    });

    it('but not when it was retried, even if none of its steps are left', async () => {
      await enqueue(enqueued('a'));
      await take(store.storage, 1);
      await store.storage.workflows.finishMany([finished('a', { owner: 'claim', status: 'ERROR', error: '"no"' })]);
      const [{ incarnation } = { incarnation: null }] = await store.storage.workflows.get(['a']);
      await store.storage.retries.retry(newRetry({ incarnation, dropped: '[]', queueName: 'q' }));
      expect(await never()).toEqual([false]);
    });

    it('but not when it has steps and no start time, as DBOS leaves it', async () => {
      await enqueue(enqueued('a'), enqueued('b'));
      await take(store.storage, 2);
      await store.storage.steps.recordMany('app', [newStep('a', 0, { owner: 'claim' })]);
      await store.sql(
        `update ${table} set status = 'ENQUEUED', owner_xid = null, executor_id = null, started_at_epoch_ms = null`,
      );
      const taken = await take(store.storage, 10);
      expect(new Map(taken.map((row) => [row.workflowId, row.neverRan]))).toEqual(
        new Map([
          ['a', false],
          ['b', true],
        ]),
      );
    });

    it('but not when it ran, was cancelled and is resumed', async () => {
      await start(store, 'a');
      await store.storage.steps.recordMany('app', [newStep('a', 0)]);
      await store.storage.workflows.cancel({ workflowIds: ['a'], reason: null, now: 2000 });
      await store.storage.workflows.resume({ workflowIds: ['a'], queueName: 'q', now: 3000 });
      expect(await never()).toEqual([false]);
    });
  });
});

describeStorage('the lock version of a queue', (store) => {
  withQueue(store);
  const turn = async () => (await queueNamed(store.storage)).lockVersion;
  const enqueueSome = (n = 4) => store.storage.queues.enqueueMany(ids(0, n).map((id) => enqueued(id)));

  it('is kept by a shared claim, and increased by an exclusive claim', async () => {
    await enqueueSome();
    const before = await turn();
    expect(await take(store.storage, 1, { lockVersion: before })).toHaveLength(1);
    expect(await turn()).toBe(before);
    expect(await take(store.storage, 1, { lockVersion: before, exclusive: true })).toHaveLength(1);
    expect(await turn()).not.toBe(before);
  });

  it.each([true, false])('prevents a claim that knows an earlier lock version (exclusive: %s)', async (exclusive) => {
    await enqueueSome();
    const stale = await turn();
    await take(store.storage, 1, { lockVersion: stale, exclusive: true });
    const moved = await turn();
    expect(await take(store.storage, 1, { lockVersion: stale, exclusive })).toEqual([]);
    expect(await take(store.storage, 1, { lockVersion: moved + 1, exclusive })).toEqual([]);
    expect(await turn()).toBe(moved);
    expect(await idsOf(take(store.storage, 1, { lockVersion: moved, exclusive }))).toEqual(['w1']);
  });

  it.each([true, false])('prevents a claim from a paused or deleted queue (exclusive: %s)', async (exclusive) => {
    await enqueueSome();
    const queue = await queueNamed(store.storage);
    const { settings } = queue;
    const paused = await store.storage.queues.change({ queue, settings, paused: true, now: 2000 });
    expect(await take(store.storage, 1, { lockVersion: paused?.lockVersion as number, exclusive })).toEqual([]);
    await store.sql(`delete from ${store.table('queues')}`);
    expect(await take(store.storage, 1, { lockVersion: paused?.lockVersion as number, exclusive })).toEqual([]);
    expect(await store.storage.queues.list()).toEqual([]);
  });

  it('tells a claim that took nothing under a fleet limit if its lock version was current', async () => {
    await enqueueSome(1);
    const held = async (more: Partial<DequeueParams>) => {
      const dequeued = await takeTurn(store.storage, 1, { exclusive: true, runnable: [], ...more });
      expect(dequeued.claimed).toEqual([]);
      return dequeued.held;
    };
    expect(await held({ lockVersion: await turn() })).toBe(true);
    expect(await held({ lockVersion: (await turn()) + 9 })).toBe(false);
    expect(await held({ lockVersion: await turn(), queueName: 'nowhere' })).toBe(false);
    const portions = [{ partition: 'a', n: 1 }];
    expect(await held({ lockVersion: await turn(), portions })).toBe(true);
    const dequeued = await takeTurn(store.storage, 1, { lockVersion: await turn(), exclusive: true });
    expect(dequeued).toMatchObject({ held: true, claimed: [{ workflowId: 'w0' }] });
  });

  it('is another one after the queue was deleted and registered again', async () => {
    const before = await turn();
    await store.storage.queues.remove('q');
    await register(store.storage, 'q', undefined, { now: 1001 });
    expect(await turn()).not.toBe(before);
  });
});

describeStorage(
  'a claim under any query plan',
  (store) => {
    withQueue(store);

    it('takes no more than its limit, from the queue and from each partition', async () => {
      for (const way of ['indexscan', 'indexonlyscan', 'hashjoin', 'mergejoin', 'material', 'memoize', 'sort']) {
        await store.sql(`alter database ${new URL(store.url).pathname.slice(1)} set enable_${way} = off`);
      }
      const other = await store.another();
      await store.storage.queues.enqueueMany(ids(0, 30).map((id) => enqueued(id, { partition: `p${id.at(-1)}` })));
      const { lockVersion } = await queueNamed(store.storage);
      expect(await idsOf(take(other, 3, { lockVersion }))).toEqual(['w0', 'w1', 'w2']);
      const portions = ['p3', 'p4'].map((partition) => ({ partition, n: 2 }));
      expect(await idsOf(take(other, 0, { lockVersion, portions }))).toEqual(['w13', 'w14', 'w3', 'w4']);
      expect(await idsOf(take(other, 2, { lockVersion, exclusive: true }))).toEqual(['w5', 'w6']);
    });
  },
  ['postgres'],
);

describeStorage('taking work by partition', (store) => {
  withQueue(store);
  const enqueue = (partition: string, ...names: string[]) =>
    store.storage.queues.enqueueMany(names.map((id) => enqueued(id, { partition })));
  const portions = (...given: [string, number][]): Portion[] => given.map(([partition, n]) => ({ partition, n }));

  it.each([
    ['free', false],
    ['shared', false],
    ['exclusive', true],
  ] as const)('takes the planned number from each partition, in one statement (%s)', async (hold, exclusive) => {
    await enqueue('a', ...ids(0, 5, 'a'));
    await enqueue('b', ...ids(0, 5, 'b'));
    await enqueue('c', ...ids(0, 5, 'c'));
    const lockVersion = hold === 'free' ? null : (await queueNamed(store.storage)).lockVersion;
    const taken = take(store.storage, 0, {
      portions: portions(['a', 2], ['c', 1], ['none', 3], ['b', 9]),
      lockVersion,
      exclusive,
    });
    expect(await idsOf(taken)).toEqual(['a0', 'a1', 'b0', 'b1', 'b2', 'b3', 'b4', 'c0']);
    await store.storage.workflows.finishMany([finished('a0', { owner: 'claim' })]);
    expect(await idsOf(take(store.storage, 0, { portions: portions(['a', 1]) }))).toEqual(['a2']);
  });

  it('takes nothing for an empty plan, and no more than the plan allows', async () => {
    await enqueue('a', ...ids(0, 500));
    expect(await take(store.storage, 0, { portions: [], byPartition: true })).toEqual([]);
    expect(await take(store.storage, 0, { portions: portions(['a', 0]) })).toEqual([]);
    expect(await take(store.storage, 0, { portions: portions(['a', 123]) })).toHaveLength(123);
  });

  it('orders a partition by priority, and accepts any text as a key', async () => {
    const keys = ['', "it's", '"quoted"', '{a,b}', 'NULL', 'ß', '💥', 'a'.repeat(1000)];
    for (const [i, key] of keys.entries()) {
      await store.storage.queues.enqueueMany([
        enqueued(`${i} last`, { partition: key, priority: 2 }),
        enqueued(`${i} first`, { partition: key, priority: 1 }),
      ]);
    }
    for (const [i, key] of keys.entries()) {
      expect(await inOrder(store.storage, { portions: portions([key, 1]) })).toEqual([`${i} first`, `${i} last`]);
    }
  });
});
