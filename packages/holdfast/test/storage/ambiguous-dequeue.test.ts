import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { type QueueOptions, queue, sleep, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { gate, overTime, tamper } from '../support/faults.js';
import { type Fault, openWire, type Wire } from './wire.js';

/** Each form of the claim, and queue settings that use this form. */
const forms: Record<string, QueueOptions> = {
  'workflows.dequeue-shared': { workerConcurrency: 2 },
  'workflows.dequeue-exclusive': { concurrency: 2, workerConcurrency: 2 },
  'workflows.dequeue-partitions-shared': { workerConcurrency: 2, partition: { workerConcurrency: 1 } },
  'workflows.dequeue-partitions-exclusive': { concurrency: 2, partition: { concurrency: 1, workerConcurrency: 1 } },
};
const kinds = ['cut-before', 'cut-after'] as const;
const cases = Object.entries(forms).flatMap(([statement, options]) =>
  kinds.flatMap((kind) => [1, 2].map((nth) => ({ statement, options, kind, nth }))),
);

describeBackends('a connection that breaks during a claim from a queue', suite, ['postgres']);

function suite(backend: Backend): void {
  it.each(cases)('strands nothing and exceeds no limit: $statement number $nth, $kind', async (given) => {
    const { statement, options, kind, nth } = given;
    const rig = await launchRig(backend, options);
    const happened = rig.wire.inject({ statement, kind, nth });
    const handles = await rig.enqueue(8);
    await rig.t.clock.advance(0);
    // Every workflow that may run, now or after the claim is repeated, waits in its body: an excess would show here.
    for (let second = 0; second < 5; second++) {
      await rig.t.clock.advance('1s');
      expect(rig.running()).toBeLessThanOrEqual(2);
    }
    rig.letGo();
    await overTime(rig.t.clock, Promise.all(handles.map((handle) => handle.result())));
    await happened;
    expect(rig.started).toHaveLength(8);
    expect(rig.peak()).toBe(2);
    expect(await rig.rows()).toEqual([{ status: 'SUCCESS', attempts: 1, n: 8 }]);
  });

  it('lets the app count the workflows of a lost claim before it takes more', async () => {
    const rig = await launchRig(backend, { workerConcurrency: 2 });
    const happened = rig.wire.inject({ statement: 'workflows.dequeue-shared', kind: 'cut-after' });
    await rig.enqueue(6);
    await happened;
    expect(rig.started).toEqual([]);
    await rig.t.clock.advance('5s');
    await expect.poll(() => rig.started).toHaveLength(2);
    expect(await rig.rows()).toEqual([
      { status: 'ENQUEUED', attempts: 0, n: 4 },
      { status: 'PENDING', attempts: 1, n: 2 },
    ]);
  });

  it.each<QueueOptions>([{ concurrency: 2 }, { concurrency: 2, partition: {} }])(
    'frees a slot only once if the answer to an outcome arrives after the slot was seen as free (%o)',
    async (options) => {
      const rig = await launchRig(backend, options);
      await rig.enqueue(4);
      await rig.t.clock.advance(0);
      expect(rig.running()).toBe(2);
      const late = gate();
      const answered = rig.holdAnswer({ statement: 'workflows.finish', kind: 'cut-after' }, late.promise);
      rig.letGo(1);
      await expect.poll(() => rig.rows()).toContainEqual({ status: 'SUCCESS', attempts: 1, n: 1 });
      // A claim sees that the slot is free and fills it.
      await rig.enqueue(4);
      await expect.poll(() => rig.running()).toBe(2);
      late.open();
      await answered;
      await rig.t.clock.advance(0);
      expect(await rig.rows()).toContainEqual({ status: 'PENDING', attempts: 1, n: 2 });
      expect(rig.running()).toBe(2);
    },
  );
}

describeBackends('a claim that the app gives up while the claim waits for a lock', lateCommits, ['postgres']);

function lateCommits(backend: Backend): void {
  it('is stopped by the server too, so it cannot take work later, and is then repeated', async () => {
    const database = await backend.newDatabase();
    const [work, jobs] = [workflow('work', async () => 'done'), queue('jobs')];
    const options = { name: 'test', database, workflows: [work], queues: [jobs], logger: silent };
    const app = await launchWith(options, { answerTimeoutMs: 800 });
    onTestFinished(() => app.shutdown());
    const other = new pg.Client(database);
    await other.connect();
    onTestFinished(() => other.end());
    // Conflicts with claims, but not with enqueueing.
    await other.query('begin; update dbos.queues set paused = false');
    const handle = await work.with({ queue: jobs }).start();
    const blocked = `select query_start::text as since from pg_stat_activity
      where wait_event_type = 'Lock' and datname = current_database()`;
    await expect.poll(() => tamper(database, blocked)).toHaveLength(1);
    const [first] = await tamper(database, blocked);
    // Another claim waits, and the first claim no longer waits.
    const later = expect.not.objectContaining({ since: first?.since });
    await expect.poll(() => tamper(database, blocked)).toEqual([later]);
    await other.query('rollback');
    expect(await handle.result()).toBe('done');
    expect(await handle.status()).toMatchObject({ attempts: 1 });
  });
}

describeBackends('a manual recovery whose answer is lost', recoveries, ['postgres']);

function recoveries(backend: Backend): void {
  it('fails, but the workflows it put back run, even if no further recovery is requested', async () => {
    const database = await backend.newDatabase();
    const asleep = workflow('asleep', async () => {
      await sleep('1m');
      return 'done';
    });
    const first = await backend.testApp({ database, workflows: [asleep], executorId: 'first', version: 'v1' });
    const { id } = await asleep.start();
    await first.clock.advance('1s');
    await first.crash();
    const wire = await openWire(database);
    const options = { database: wire.url, workflows: [asleep], executorId: 'second', version: 'v1' };
    const second = await backend.testApp({ ...options, clock: first.clock });
    const happened = wire.inject({ statement: 'takeovers.putBack-by-executor', kind: 'cut-after' });
    await expect(second.app.recovery.recover(['first'])).rejects.toThrow();
    await happened;
    expect(await overTime(second.clock, second.app.workflows.handle(id).result(), 120)).toBe('done');
    expect(await tamper(database, 'select recovery_attempts::int as n from workflow_status')).toEqual([{ n: 2 }]);
  });
}

interface Rig {
  readonly t: TestApp;
  readonly wire: Wire;
  readonly started: readonly string[];
  enqueue(n: number): Promise<readonly { result(): Promise<unknown> }[]>;
  /** The number of workflow functions that have begun and not ended. */
  running(): number;
  peak(): number;
  /** Lets `n` workflows finish; without a number all of them, now and later. */
  letGo(n?: number): void;
  /** Injects a fault on the wire, and holds the answer back until `until` resolves. */
  holdAnswer(fault: Fault, until: Promise<void>): Promise<void>;
  rows(): Promise<Record<string, unknown>[]>;
}

async function launchRig(backend: Backend, options: QueueOptions): Promise<Rig> {
  const database = await backend.newDatabase();
  const wire = await openWire(database);
  const [started, waiting]: [string[], (() => void)[]] = [[], []];
  let [running, peak, open] = [0, 0, false];
  const work = workflow('work', async (name: string) => {
    started.push(name);
    running++;
    peak = Math.max(peak, running);
    if (!open) await new Promise<void>((resolve) => waiting.push(resolve));
    running--;
  });
  const jobs = queue('jobs', options);
  const t = await backend.testApp({ database: wire.url, workflows: [work], queues: [jobs] });
  let enqueued = 0;
  return {
    t,
    wire,
    started,
    enqueue: (n) => {
      const names = Array.from({ length: n }, () => [`job ${enqueued++}`] as [string]);
      const partition = (_: unknown, i: number) => (options.partition ? { partition: `p${i % 4}` } : {});
      return work.with({ queue: jobs }).startAll(names, partition);
    },
    running: () => running,
    peak: () => peak,
    letGo: (n) => {
      open = n === undefined;
      for (const resolve of waiting.splice(0, n ?? waiting.length)) resolve();
    },
    holdAnswer: (fault, until) => wire.inject({ ...fault, meanwhile: () => until }),
    rows: () =>
      tamper(
        database,
        'select status, recovery_attempts::int as attempts, count(*)::int as n from workflow_status group by 1, 2 order by 1',
      ),
  };
}
