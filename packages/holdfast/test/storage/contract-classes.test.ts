import { expect, it } from 'vitest';
import type { ScheduleRecord } from '../../src/storage/contract/schedules.js';
import type { Runnable } from '../../src/storage/contract/storage.js';
import {
  describeStorage,
  idsOf,
  newChild,
  newClaim,
  newTakeover,
  newWorkflow,
  type Store,
  takeOver,
  writer,
} from './contract-support.js';
import { debounced, enqueued, register, take, withQueue } from './queue-support.js';

const shop = (configName: string | null, name = 'checkout') => ({ name, className: 'Shop', configName });
const can = (...keys: Omit<Runnable, 'maxRecoveryAttempts'>[]): Runnable[] =>
  keys.map((key) => ({ ...key, maxRecoveryAttempts: 100 }));

/** Everything that distinguishes one workflow named `checkout` from another. */
const keys = {
  plain: { name: 'checkout', className: null, configName: null },
  static: shop(null),
  eu: shop('eu'),
  us: shop('us'),
  otherClass: { ...shop('eu'), className: 'Store' },
  otherName: shop('eu', 'refund'),
};
const entries = Object.entries(keys);

describeStorage('storage for workflows of classes', suite);

function suite(store: Store): void {
  withQueue(store);
  const takeOverKnown = (runnable: Runnable[], limit = 100) => takeOver(store.storage, newClaim({ runnable, limit }));

  it('stores class, configuration and assumed role of started, child and enqueued workflows', async () => {
    const { queues, workflows } = store.storage;
    const more = { ...keys.eu, user: 'ada', roles: '["admin"]', assumedRole: 'admin' };
    await workflows.insertMany(writer, [newWorkflow('a', more), newWorkflow('plain')]);
    await workflows.insertChildren(writer, [newChild('b', 'a', more)]);
    await queues.enqueueMany([enqueued('c', more)]);
    await queues.enqueueMany([enqueued('d', { ...more, parentWorkflowId: 'a', parentOwner: 'owner of a' })]);
    await queues.enqueueAll([enqueued('e', more)]);
    await queues.debounce(debounced('f', more));
    for (const found of await workflows.get(['a', 'b', 'c', 'd', 'e', 'f'])) expect(found).toMatchObject(more);
    expect(await workflows.get(['plain'])).toMatchObject([{ className: null, configName: null, assumedRole: null }]);
    expect(await workflows.list({ ids: ['f'] })).toMatchObject([more]);
  });

  it('takes over PENDING work by name, class and configuration', async () => {
    await store.storage.workflows.insertMany(
      writer,
      entries.map(([id, key]) => newWorkflow(id, key)),
    );
    for (const [id, key] of entries) {
      expect(await takeOverKnown(can(key))).toMatchObject([{ workflowId: id, ...key }]);
    }
  });

  it('does not count work of an unknown instance against the limit of a claim', async () => {
    const rows = entries.map(([id, key], i) => newWorkflow(id, { ...key, createdAt: 1000 + i }));
    await store.storage.workflows.insertMany(writer, rows);
    expect(await idsOf(takeOverKnown(can(keys.us), 1))).toEqual(['us']);
    await store.storage.queues.enqueueMany(entries.map(([id, key]) => enqueued(`queued ${id}`, key)));
    expect(await idsOf(take(store.storage, 1, { runnable: can(keys.us) }))).toEqual(['queued us']);
  });

  it('takes work from a queue by name, class and configuration', async () => {
    const identity = { user: 'ada', roles: '["admin"]', assumedRole: 'admin' };
    for (const [id, key] of entries) await store.storage.queues.enqueueMany([enqueued(id, { ...key, ...identity })]);
    for (const [id, key] of entries) {
      expect(await take(store.storage, 9, { runnable: can(key) })).toMatchObject([
        { workflowId: id, ...key, ...identity },
      ]);
    }
  });

  it('takes all known workflows at once, each with its own limit of attempts', async () => {
    await store.storage.queues.enqueueMany(entries.map(([id, key]) => enqueued(id, key)));
    const table = store.table('workflow_status');
    await store.sql(`update ${table} set recovery_attempts = 3 where workflow_uuid in ('eu', 'us')`);
    const runnable = [
      { ...keys.eu, maxRecoveryAttempts: 2 },
      { ...keys.us, maxRecoveryAttempts: 100 },
    ];
    expect(await idsOf(take(store.storage, 9, { runnable }))).toEqual(['us']);
    const suspects = await take(store.storage, 9, { runnable, suspects: true });
    expect(suspects).toMatchObject([{ workflowId: 'eu', status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' }]);
  });

  it('treats an empty class, which clients of DBOS may write, as no class', async () => {
    await store.storage.queues.enqueueMany([enqueued('queued')]);
    await store.storage.workflows.insertMany(writer, [newWorkflow('pending')]);
    await store.sql(`update ${store.table('workflow_status')} set class_name = '', config_name = ''`);
    expect(await take(store.storage, 9)).toMatchObject([{ workflowId: 'queued', className: null, configName: null }]);
    expect(await idsOf(takeOverKnown(can({ name: 'greet' })))).toEqual(['pending']);
  });

  it('lists by class and configuration the workflows that a recovery cannot run', async () => {
    await store.storage.workflows.insertMany(
      writer,
      [0, 1].flatMap((n) => entries.map(([id, key]) => newWorkflow(`${id} ${n}`, key))),
    );
    const found = await store.storage.takeovers.left(newTakeover().free);
    expect(found).toHaveLength(entries.length);
    for (const [id, key] of entries) expect(found).toContainEqual({ ...key, workflowId: `${id} 0`, count: 2 });
  });

  it('lists the work on a queue that waits for an unknown instance', async () => {
    await store.storage.queues.enqueueMany(entries.map(([id, key]) => enqueued(id, key)));
    const own = { writer: newClaim().writer, version: 'v1', queueName: 'q' };
    const found = await store.storage.queues.unclaimable({ ...own, runnable: can(keys.plain, keys.eu) });
    expect(found).toHaveLength(entries.length - 2);
    expect(found).toContainEqual({ ...keys.us, version: 'v1', workflowId: 'us' });
  });

  it('counts the work of a partition that an instance can take', async () => {
    await register(store.storage, 'parted', {
      limits: { concurrency: null, workerConcurrency: null, rateLimit: null },
      partition: { concurrency: 1, workerConcurrency: null, rateLimit: null },
      priority: true,
      whileWaiting: 'hold',
    });
    const rows = entries.map(([id, key]) => enqueued(id, { ...key, queueName: 'parted', partition: 'p' }));
    await store.storage.queues.enqueueMany(rows);
    const look = { ...newClaim({ runnable: can(keys.eu, keys.us) }), queueName: 'parted', after: '', limit: 9 };
    const found = await store.storage.queues.partitions({ ...look, waitingUpTo: 9, rate: null, suspects: false });
    expect(found).toMatchObject([{ partition: 'p', waiting: 2 }]);
  });

  it('does not enqueue a batch if an ID belongs to the same name of another instance', async () => {
    const { queues } = store.storage;
    await queues.enqueueMany([enqueued('taken', keys.eu)]);
    for (const key of [keys.us, keys.static, keys.plain, keys.otherClass]) {
      expect(await queues.enqueueAll([enqueued('new', key), enqueued('taken', key)])).toEqual(new Set());
    }
    expect(await queues.enqueueAll([enqueued('new', keys.eu), enqueued('taken', keys.eu)])).toEqual(new Set(['new']));
  });

  it('extends the wait of a debouncer only for the same instance', async () => {
    const { queues } = store.storage;
    await queues.debounce(debounced('a', keys.eu));
    expect(await queues.debounce(debounced('b', keys.us))).toBeUndefined();
    expect(await queues.debounce(debounced('b', keys.plain))).toBeUndefined();
    expect(await queues.debounce(debounced('b', keys.eu))).toMatchObject({ workflowId: 'a' });
  });

  it('fires the schedule of a static method, but not after the schedule gets another workflow', async () => {
    const { schedules, workflows } = store.storage;
    await store.sql(`delete from ${store.table('workflow_schedules')}`);
    const settings = { name: 's', workflowName: 'sweep', className: 'Shop', cron: '* * * * *', timezone: null };
    const common = { context: '1', queueName: null, catchUp: 'skip' as const, catchUpLimit: 100 };
    const created = await schedules.create({ settings: { ...settings, ...common }, appName: 'app', now: 1 });
    const schedule = created as ScheduleRecord;
    expect(schedule).toMatchObject({ workflowName: 'sweep', className: 'Shop' });
    const fire = (id: string) => {
      const runs = [{ workflowId: id, inputs: '[]', serialization: 'js_superjson', timeoutMs: null }];
      return schedules.fire({ schedule, runs, evenIfPaused: false, now: 2 });
    };
    expect(await fire('tick')).toEqual(new Set(['tick']));
    expect(await workflows.get(['tick'])).toMatchObject([{ name: 'sweep', className: 'Shop', configName: null }]);
    const changed = await schedules.change({ name: 's', appName: 'app', changes: { className: null }, now: 3 });
    expect(changed).toMatchObject({ workflowName: 'sweep', className: null });
    expect(await fire('tock')).toEqual(new Set());
  });
}
