import { describe, expect, it } from 'vitest';
import type { QueueSettings } from '../../src/model/queues.js';
import type { QueueRecord } from '../../src/storage/contract/queues.js';
import { describeStorage, finished, idsOf, start } from './contract-support.js';
import { enqueued, noLimits, queueNamed, register, settings, take, withQueue } from './queue-support.js';

const everything: QueueSettings = {
  limits: { concurrency: 8, workerConcurrency: 4, rateLimit: { max: 100, perMs: 1500 } },
  partition: { concurrency: 2, workerConcurrency: 1, rateLimit: { max: 5, perMs: 100 } },
  priority: false,
  whileWaiting: 'release',
};

describeStorage('a stored queue', (store) => {
  withQueue(store);
  const change = (queue: QueueRecord, more: Partial<{ settings: QueueSettings; paused: boolean; now: number }> = {}) =>
    store.storage.queues.change({ queue, settings: queue.settings, paused: queue.paused, now: 2000, ...more });

  it('has every setting that was registered', async () => {
    const stored = await register(store.storage, 'all', everything, { now: 1234 });
    const dates = { createdAt: 1234, updatedAt: 1234 };
    expect(stored).toEqual({
      ...{
        name: 'all',
        appName: 'app',
        settings: everything,
        paused: false,
        lockVersion: stored.lockVersion,
        ...dates,
      },
    });
    expect((await store.storage.queues.list()).map((queue) => queue.name)).toEqual(['all', 'q']);
    const [turns, bare] = [settings({}, {}), settings({ rateLimit: { max: 1, perMs: 1 } })];
    expect((await register(store.storage, 'turns', turns)).settings).toEqual(turns);
    expect((await register(store.storage, 'bare', bare)).settings).toEqual(bare);
  });

  it('of DBOS has limits per partition if it has the partition flag or such a limit', async () => {
    const insert = (columns: string, values: string) =>
      store.sql(`insert into ${store.table('queues')} (name, created_at, updated_at, ${columns})
        values ('of dbos', 1, 1, ${values})`);
    const found = async () => (await queueNamed(store.storage, 'of dbos')).settings;
    await insert('concurrency, worker_concurrency, partition_queue', '3, 2, true');
    const legacy = { concurrency: 3, workerConcurrency: 2, rateLimit: null };
    expect(await found()).toMatchObject({ limits: noLimits, partition: legacy });
    await store.sql(`delete from ${store.table('queues')}`);
    await insert('concurrency, partition_rate_limit_max, partition_rate_limit_period_sec', '3, 10, 0.5');
    expect(await found()).toMatchObject({
      limits: { ...noLimits, concurrency: 3 },
      partition: { ...noLimits, rateLimit: { max: 10, perMs: 500 } },
    });
  });

  describe('that is registered again', () => {
    const other = settings({ concurrency: 1 });
    const latest = (name: string) => store.storage.versions.register({ name, appName: 'app', now: Date.now() });

    it.each([
      ['always', 'v1', true],
      ['always', 'v0', true],
      ['never', 'v1', false],
      ['update-if-latest-version', 'v1', true],
      ['update-if-latest-version', 'v0', false],
      ['update-if-latest-version', null, true],
    ] as const)('with the policy %s by version %s changes its settings: %s', async (policy, version, counts) => {
      await latest('v1');
      const before = await queueNamed(store.storage);
      const after = await register(store.storage, 'q', other, { policy, version, now: 3000 });
      expect(after.settings).toEqual(counts ? other : before.settings);
      expect(after.lockVersion === before.lockVersion).toBe(!counts);
      expect(after).toMatchObject({ createdAt: 1000, updatedAt: counts ? 3000 : 1000 });
    });

    it('with the same settings keeps its lock version, so that plans of others stay valid', async () => {
      const before = await register(store.storage, 'all', everything);
      expect(await register(store.storage, 'all', everything, { now: 5000 })).toEqual(before);
    });

    it('keeps its pause', async () => {
      await change(await queueNamed(store.storage), { paused: true });
      expect(await register(store.storage, 'q', other)).toMatchObject({ paused: true, settings: other });
    });

    it('by another app does not change, but a queue without an app goes to the app that registers it', async () => {
      expect(await register(store.storage, 'q', other, { appName: 'thief' })).toMatchObject({
        ...{ appName: 'app', settings: settings() },
      });
      await register(store.storage, 'free', settings(), { appName: null });
      expect(await register(store.storage, 'free', other)).toMatchObject({ appName: 'app', settings: other });
      expect(await register(store.storage, 'free', settings(), { appName: null })).toMatchObject({ appName: 'app' });
    });

    it('by 20 processes at once is one queue, with the settings of one of them', async () => {
      const storages = [store.storage, await store.another()];
      await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          register(storages[i % 2] as typeof store.storage, 'raced', settings({ concurrency: i + 1 })),
        ),
      );
      const { limits } = (await queueNamed(store.storage, 'raced')).settings;
      expect(limits.concurrency).toBeGreaterThan(0);
    });
  });

  it('is changed only by a caller that has read its current state', async () => {
    const read = await queueNamed(store.storage);
    const changed = await change(read, { settings: everything, paused: true });
    expect(changed).toMatchObject({ settings: everything, paused: true, createdAt: 1000, updatedAt: 2000 });
    expect(changed?.lockVersion).not.toBe(read.lockVersion);
    expect(await change(read)).toBeUndefined();
    expect(await queueNamed(store.storage)).toEqual(changed);
    expect(await change(changed as QueueRecord, { paused: false })).toMatchObject({ paused: false });
    expect(await change({ ...read, name: 'nobody' })).toBeUndefined();
  });

  it('is changed by one of several callers at once, even within a millisecond and by clocks that go back', async () => {
    const [queue, other] = [await queueNamed(store.storage), await store.another()];
    const attempts = Array.from({ length: 20 }, (_, i) =>
      (i % 2 ? store.storage : other).queues.change({
        ...{ queue, settings: settings({ concurrency: i + 1 }), paused: false, now: 1000 - i },
      }),
    );
    expect((await Promise.all(attempts)).filter((each) => each !== undefined)).toHaveLength(1);
  });

  it('is not changed by a caller that read it before a registration in the same millisecond', async () => {
    const read = await queueNamed(store.storage);
    await register(store.storage, 'q', settings({ concurrency: 1 }), { now: read.updatedAt });
    expect(await change(read, { paused: true })).toBeUndefined();
    expect(await queueNamed(store.storage)).toMatchObject({ settings: settings({ concurrency: 1 }), paused: false });
  });

  it('can be changed after a claim has increased its lock version: a claim is not an edit', async () => {
    await store.storage.queues.enqueueMany([enqueued('a')]);
    const read = await queueNamed(store.storage);
    await take(store.storage, 1, { lockVersion: read.lockVersion, exclusive: true });
    expect(await change(read, { paused: true })).toMatchObject({ paused: true });
  });

  it('is removed only if it holds no unfinished workflow', async () => {
    const { queues, workflows } = store.storage;
    await queues.enqueueMany([enqueued('a'), enqueued('b', { delayUntil: 9000 }), enqueued('c')]);
    await take(store.storage, 1);
    expect(await queues.unfinished('q')).toBe(3);
    expect(await queues.remove('q')).toBe(false);
    await workflows.finishMany([finished('a', { owner: 'claim' })]);
    await workflows.cancel({ workflowIds: ['b'], reason: null, now: 1 });
    expect(await queues.remove('q')).toBe(false);
    await workflows.cancel({ workflowIds: ['c'], reason: null, now: 1 });
    expect(await queues.unfinished('q')).toBe(0);
    expect(await queues.remove('q')).toBe(true);
    expect(await queues.remove('q')).toBe(false);
    expect(await queues.list()).toEqual([]);
  });

  it('gives waiting work a partition key when it gets partitions, so that the work is found', async () => {
    await store.storage.queues.enqueueMany([enqueued('a'), enqueued('b', { delayUntil: 9000 })]);
    await change(await queueNamed(store.storage), { settings: settings({}, { concurrency: 1 }) });
    const keys = (await store.storage.workflows.list({})).map((row) => row.partition);
    expect(keys).toEqual(['(none)', '(none)']);
    const portions = [{ partition: '(none)', n: 9 }];
    expect(await idsOf(take(store.storage, 0, { portions }))).toEqual(['a']);
    // The change that added the partitions may have been interrupted. The next change completes it.
    await store.sql(`update ${store.table('workflow_status')} set queue_partition_key = null`);
    await change(await queueNamed(store.storage), { paused: true });
    expect((await store.storage.workflows.list({})).map((row) => row.partition)).toEqual(['(none)', '(none)']);
    expect(await store.storage.queues.assignPartitionKeys(['q'])).toBe(false);
  });

  it('is stored in a batch of queues as it would be stored alone', async () => {
    await register(store.storage, 'theirs', settings({ concurrency: 1 }), { appName: 'thief' });
    const queues = ['new', 'q', 'theirs', 'parted'].map((name) => ({
      name,
      settings: settings({ concurrency: 7 }, name === 'parted' ? { concurrency: 1 } : undefined),
    }));
    await store.storage.queues.enqueueMany([enqueued('keyless', { queueName: 'q' })]);
    const common = { policy: 'always' as const, appName: 'app', version: 'v1', now: 4000 };
    const stored = await store.storage.queues.register({ ...common, queues });
    expect(stored.map(({ name, appName, settings: { limits } }) => [name, appName, limits.concurrency])).toEqual([
      ['new', 'app', 7],
      ['parted', 'app', 7],
      ['q', 'app', 7],
      ['theirs', 'thief', 1],
    ]);
    expect(await store.storage.queues.register({ ...common, queues, now: 5000 })).toEqual(stored);
    expect(await store.storage.queues.register({ ...common, queues: [] })).toEqual([]);
  });

  it('has counts of its own waiting, running and delayed work only', async () => {
    const { queues, workflows } = store.storage;
    await register(store.storage, 'empty');
    await register(store.storage, 'parted', settings({}, {}));
    await queues.enqueueMany(['a', 'b', 'c', 'ended'].map((id) => enqueued(id)));
    await take(store.storage, 1, { owner: 'runs' });
    await queues.enqueueMany([enqueued('other version', { version: 'v0' }), enqueued('later', { delayUntil: 9000 })]);
    await workflows.cancel({ workflowIds: ['ended'], reason: null, now: 1 });
    await queues.enqueueMany(
      ['x', 'y'].map((id) =>
        enqueued(id, { queueName: 'parted', partition: id, delayUntil: id === 'y' ? 9000 : null }),
      ),
    );
    await start(store, 'on no queue');
    const counts = { q: [3, 1, 1], empty: [0, 0, 0], parted: [1, 0, 1] };
    const all = await queues.listWithCounts(null);
    expect(Object.fromEntries(all.map((each) => [each.name, [each.waiting, each.running, each.delayed]]))).toEqual(
      counts,
    );
    expect(all.map(({ name }) => name)).toEqual(['empty', 'parted', 'q']);
    expect(await queues.listWithCounts('q')).toEqual([
      { ...(await queueNamed(store.storage)), waiting: 3, running: 1, suspended: 0, delayed: 1 },
    ]);
    expect(await queues.listWithCounts('nowhere')).toEqual([]);
  });

  it('shows in the overview if it has waiting work, and when the next delayed workflow is due', async () => {
    const { queues } = store.storage;
    await register(store.storage, 'empty');
    await register(store.storage, 'busy');
    expect(await queues.overview()).toMatchObject({ internal: { waiting: false, retried: false }, nextDueAt: null });
    await start(store, 'running');
    await queues.enqueueMany([
      enqueued('a', { queueName: 'busy' }),
      enqueued('late', { delayUntil: 9000 }),
      enqueued('soon', { queueName: 'empty', delayUntil: 8000 }),
      enqueued('internal', { queueName: '_dbos_internal_queue' }),
    ]);
    const seen = await queues.overview();
    expect(seen.queues.map(({ queue, waiting }) => [queue.name, waiting]).sort()).toEqual([
      ['busy', true],
      ['empty', false],
      ['q', false],
    ]);
    expect(seen.queues.find(({ queue }) => queue.name === 'q')?.queue).toEqual(await queueNamed(store.storage));
    expect(seen).toMatchObject({ internal: { waiting: true, retried: false }, nextDueAt: 8000 });
    expect(await queues.busy()).toEqual({
      queues: [
        { name: '_dbos_internal_queue', retried: false, lockVersion: null },
        {
          name: 'busy',
          retried: false,
          lockVersion: seen.queues.find(({ queue }) => queue.name === 'busy')?.queue.lockVersion,
        },
      ],
      nextDueAt: 8000,
    });
  });

  it('shows in the overview if it has waiting work that was tried before', async () => {
    const { queues } = store.storage;
    for (const name of ['one', 'two']) await register(store.storage, name);
    await queues.enqueueMany([enqueued('a', { queueName: 'one' }), enqueued('b', { queueName: 'two' })]);
    await store.sql(`update ${store.table('workflow_status')} set recovery_attempts = 1 where workflow_uuid = 'b'`);
    const retried = async () =>
      (await queues.overview()).queues.map(({ queue, ...each }) => [queue.name, each.retried]);
    expect((await retried()).sort()).toEqual([
      ['one', false],
      ['q', false],
      ['two', true],
    ]);
    expect(await queues.busy()).toEqual({
      queues: [
        { name: 'one', retried: false, lockVersion: expect.any(Number) },
        { name: 'two', retried: true, lockVersion: expect.any(Number) },
      ],
      nextDueAt: null,
    });
  });

  it('lists the waiting work that a process cannot take, with the version it needs', async () => {
    const rows = [
      enqueued('fine'),
      enqueued('x', { name: 'unknown' }),
      enqueued('y', { name: 'unknown' }),
      enqueued('old', { version: 'v0' }),
      enqueued('latest', { version: null }),
    ];
    await store.storage.queues.enqueueMany(rows);
    await store.storage.versions.register({ name: 'v2', appName: 'app', now: 1 });
    const runnable = [{ name: 'greet', maxRecoveryAttempts: 100 }];
    const writer = { executorId: 'e', appName: 'app' };
    const found = await store.storage.queues.unclaimable({ queueName: 'q', writer, version: 'v1', runnable });
    const key = (each: (typeof found)[number]) => `${each.name} ${each.version} ${each.workflowId}`;
    expect(found.map(key).sort()).toEqual(['greet null latest', 'greet v0 old', 'unknown v1 x']);
  });
});
