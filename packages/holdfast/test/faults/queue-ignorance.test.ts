import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Runtime } from '../../src/engine/runtime.js';
import { type App, debouncer, type QueueOptions, queue, workflow } from '../../src/index.js';
import type { Storage } from '../../src/storage/contract/storage.js';
import { openStorage } from '../../src/storage/open.js';
import { Signals, VirtualClock } from '../../src/testing/index.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { failure, gate, overTime, tamper } from '../support/faults.js';

/**
 * A process that gets no notifications and does not poll, because its clock is stopped. Meanwhile others edit, empty
 * and delete the queues it works on. Its cache is stale, and it must detect this before it does harm.
 */
describeBackends('a process with a stale view of its queues', suite);

const edits: [string, QueueOptions, QueueOptions, { all?: number; partition?: number }][] = [
  ['a limit', {}, { concurrency: 2 }, { all: 2 }],
  ['a lower limit', { concurrency: 8 }, { concurrency: 2 }, { all: 2 }],
  ['a limit of its own', { concurrency: 8 }, { concurrency: 8, workerConcurrency: 2 }, { all: 2 }],
  ['partitions', { concurrency: 8 }, { concurrency: 8, partition: { concurrency: 1 } }, { partition: 1 }],
  ['partitions', {}, { partition: { concurrency: 1 } }, { partition: 1 }],
  ['lower limits', { partition: { concurrency: 5 } }, { partition: { concurrency: 1 } }, { partition: 1 }],
  ['one limit for all', { partition: { concurrency: 5 } }, { concurrency: 2 }, { all: 2 }],
];

function suite(backend: Backend): void {
  it.each(edits)('respects %s that a queue got in the meantime (from %o to %o)', async (_, before, after, most) => {
    const rig = await launchDeaf(backend, before);
    const { engine, other, app } = rig;
    const jobs = Array.from({ length: 12 }, (_, i) => [`p${i % 2}`] as [string]);
    const start = () =>
      rig.work.with({ queue: 'jobs' }).startAll(jobs, ([key]) => (before.partition ? { partition: key } : {}));
    await edit(other, 'jobs', after);
    const handles = await start();
    // A claim with stale settings takes nothing and makes the process refresh its settings. Here the test does the
    // refresh.
    await engine.storage.queues
      .overview()
      .then(({ queues }) => engine.queueCache.update(queues.map((each) => each.queue)));
    engine.news.announce('queue:jobs');
    await Promise.all(handles.map((handle) => handle.result()));
    expect(rig.peak()).toBeLessThanOrEqual(most.all ?? 12);
    if (most.partition && before.partition) expect(rig.partitionPeak()).toBeLessThanOrEqual(most.partition);
    if (most.partition && !before.partition) expect(rig.peak()).toBeLessThanOrEqual(most.partition);
    expect(app.name).toBe('test');
  });

  it('plans again at once if another process claims between its query and its claim', async () => {
    const rig = await launchDeaf(backend, { concurrency: 4 });
    const { other, engine } = rig;
    const held = gate();
    rig.holdUntil(held.promise);
    let robbed = 0;
    const { dequeue } = engine.storage.queues;
    engine.storage.queues.dequeue = async (params) => {
      // The other process is quicker, three times.
      if (robbed++ < 3) await claimOne(other);
      return dequeue.call(engine.storage.queues, params);
    };
    await rig.work.with({ queue: 'jobs' }).startAll(Array.from({ length: 8 }, () => ['x'] as [string]));
    await rig.signals.wait('started', 1);
    const counted = 'select status, executor_id as who, count(*) as n from workflow_status group by 1, 2 order by 2, 1';
    const rows = await tamper(rig.database, counted);
    expect(rows.filter((row) => row.status === 'PENDING').map((row) => [row.who, Number(row.n)])).toEqual(
      expect.arrayContaining([
        ['other', 3],
        ['test', 1],
      ]),
    );
    held.open();
  });

  it('puts nothing on a deleted queue', async () => {
    const rig = await launchDeaf(backend, {});
    await rig.other.queues.remove('jobs');
    const unknown = { code: 'UNKNOWN_QUEUE' };
    const start = rig.work.with({ queue: 'jobs' });
    expect(await failure(start.start('a'))).toMatchObject(unknown);
    expect(await failure(start.startAll([['a'], ['b']]))).toMatchObject(unknown);
    const debounced = debouncer(rig.work, { start: { queue: 'jobs' } });
    expect(await failure(debounced.debounce('key', 0, 'a'))).toMatchObject(unknown);
    expect(await tamper(rig.database, 'select 1 from workflow_status')).toEqual([]);
  });

  it('runs workflows that were enqueued in SQL without a key on a partitioned queue', async () => {
    const rig = await launchDeaf(backend, { partition: { concurrency: 1 } });
    const handles = await rig.work
      .with({ queue: 'jobs', delay: '1h' })
      .startAll([['a'], ['b']], ([partition]) => ({ partition }));
    await tamper(rig.database, "update workflow_status set queue_partition_key = null, status = 'ENQUEUED'");
    await rig.poll();
    // Real time passes too: nothing in this app stops the clock until its statements are answered.
    await rig.clock.runUntil(Promise.all(handles.map((handle) => handle.result())));
    expect(rig.peak()).toBe(1);
  });

  if (backend.name !== 'postgres') return;

  it('does not poll in a tight loop for a locked delayed workflow, and runs it once it is unlocked', async () => {
    const database = await backend.newDatabase();
    const holder = new pg.Client(database);
    await holder.connect();
    onTestFinished(() => holder.end());
    const work = workflow('work', async () => 'done');
    const t = await backend.testApp({ database, workflows: [work] });
    const handle = await work.with({ delay: '1s' }).start();
    await holder.query('begin; select 1 from dbos.workflow_status for update');
    await t.clock.advance('11s');
    const tries = t.statements.filter((name) => name === 'workflows.promoteDue').length;
    expect(tries).toBeGreaterThan(3);
    expect(tries).toBeLessThanOrEqual(11);
    await holder.query('commit');
    expect(await overTime(t.clock, handle.result(), 5)).toBe('done');
  });
}

interface Deaf {
  readonly database: string;
  readonly app: App;
  readonly engine: Runtime;
  readonly clock: VirtualClock;
  /** The database as another process has opened it. */
  readonly other: Storage;
  readonly work: ReturnType<typeof workflow<[string], unknown>>;
  readonly signals: Signals;
  peak(): number;
  partitionPeak(): number;
  holdUntil(promise: Promise<void>): void;
  /** Does what the periodic poll would do. */
  poll(): Promise<void>;
}

async function launchDeaf(backend: Backend, options: QueueOptions): Promise<Deaf> {
  const database = await backend.newDatabase();
  const signals = new Signals();
  const running = new Map<string, number>();
  let [peak, partitionPeak, held] = [0, 0, Promise.resolve()];
  const work = workflow('work', async (key: string): Promise<unknown> => {
    signals.emit('started');
    running.set(key, (running.get(key) ?? 0) + 1);
    partitionPeak = Math.max(partitionPeak, running.get(key) ?? 0);
    peak = Math.max(
      peak,
      [...running.values()].reduce((sum, n) => sum + n, 0),
    );
    await held;
    // Long enough for workflows of the same claim to begin.
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    running.set(key, (running.get(key) ?? 1) - 1);
    return key;
  });
  const clock = new VirtualClock(Date.now());
  let engine!: Runtime;
  const onStart = (started: Runtime): void => {
    engine = started;
    started.storage.listen = () => ({ ready: Promise.resolve(), stop: async () => {} });
  };
  const app = await launchWith(
    {
      name: 'test',
      executorId: 'test',
      version: 'v1',
      database,
      workflows: [work],
      queues: [queue('jobs', options)],
      logger: silent,
    },
    { clock, onStart },
  );
  const other = await openStorage({
    url: database,
    schema: 'dbos',
    migrate: false,
    logger: silent,
    applicationName: 'o',
  });
  onTestFinished(async () => {
    await app.shutdown();
    await other.close();
  });
  return {
    ...{ database, app, engine, clock, other, work, signals },
    peak: () => peak,
    partitionPeak: () => partitionPeak,
    holdUntil: (promise) => {
      held = promise;
    },
    poll: () => clock.advance('2500ms'),
  };
}

async function edit(storage: Storage, name: string, options: QueueOptions): Promise<void> {
  const found = (await storage.queues.list()).find((each) => each.name === name);
  if (!found) throw new Error(`There is no queue ${name}.`);
  const { settings } = queue(name, options);
  expect(await storage.queues.change({ queue: found, settings, paused: false, now: Date.now() })).toBeDefined();
}

async function claimOne(storage: Storage): Promise<void> {
  const [found] = await storage.queues.list();
  const { claimed } = await storage.queues.dequeue({
    ...{ writer: { executorId: 'other', appName: 'test' }, owner: 'other', version: 'v1', now: Date.now() },
    ...{ runnable: [{ name: 'work', maxRecoveryAttempts: 100 }], queueName: 'jobs', byPartition: false },
    ...{ portions: [{ partition: null, n: 1 }], lockVersion: found?.lockVersion ?? 0, exclusive: true },
    ...{ rateLimited: false, suspects: false },
  });
  expect(claimed).toHaveLength(1);
}
