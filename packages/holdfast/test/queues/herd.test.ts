import { expect, it } from 'vitest';
import { context, type Queue, type QueueOptions, queue, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { gate } from '../support/faults.js';
import { launchFleet, Stage } from '../support/queues.js';

/** Tests how many statements a fleet of idle processes sends. The clock does not move, so no statement is a poll. */
const size = 20;

interface Herd {
  /** Returns the names of the statements that all processes have sent since the last call. */
  made(): string[];
  /** Runs workflows one after the other. The web process enqueues each of them. */
  runSome(count: number): Promise<void>;
  readonly apps: TestApp[];
}

async function launch(backend: Backend, options: QueueOptions): Promise<Herd> {
  const database = await backend.newDatabase();
  let ended = 0;
  const work = workflow('work', async () => void ended++);
  const jobs: Queue = queue('jobs', options);
  const common = { database, version: 'v', workflows: [work], queues: [jobs], poolSize: 2 };
  const workers = await launchFleet(backend, size, common);
  const { clock } = workers[0] as TestApp;
  const web = await backend.testApp({ ...common, clock, executorId: 'web', listen: [] });
  // After six seconds every process knows all the others.
  await clock.advance('6s');
  const apps = [...workers, web];
  const seen = new Map<TestApp, number>();
  const made = (): string[] =>
    apps.flatMap((t) => {
      const names = t.statements.slice(seen.get(t) ?? 0);
      seen.set(t, t.statements.length);
      return names;
    });
  await settled(apps, made);
  const runSome = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      await work.with({ queue: jobs, app: web.app }).start();
      await expect.poll(() => ended).toBe(i + 1);
      await quiet(apps);
    }
  };
  return { made, runSome, apps };
}

describeBackends(
  `${size} idle processes`,
  (backend) => {
    const rounds = 10;

    it('send at most 6 statements in total for each workflow that is enqueued and runs', async () => {
      const { made, runSome, apps } = await launch(backend, {});
      await runSome(rounds);
      const counts = tally(made());
      expect(counts.get('workflows.dequeue-shared')).toBe(rounds);
      expect(sum(counts), JSON.stringify([...counts])).toBeLessThanOrEqual(6 * rounds);
      // The processes that were not chosen send no claim later either, because they were notified of the first one.
      await apps[0]?.clock.advance('200ms');
      expect(made().filter((name) => /dequeue|waits/.test(name))).toEqual([]);
    });

    it('send one claim and at most two queries per workflow when a limit covers the whole fleet', async () => {
      const { made, runSome, apps } = await launch(backend, { concurrency: 5 });
      await runSome(rounds);
      const counts = tally(made());
      expect(counts.get('workflows.dequeue-exclusive')).toBe(rounds);
      expect(counts.get('queues.usage')).toBeLessThanOrEqual(2 * rounds);
      expect(sum(counts), JSON.stringify([...counts])).toBeLessThanOrEqual(8 * rounds);
      await apps[0]?.clock.advance('200ms');
      expect(made().filter((name) => /dequeue|waits|usage/.test(name))).toEqual([]);
    });
  },
  ['postgres'],
);

describeBackends(
  'slots of a fleet with a backlog',
  (backend) => {
    it('are refilled by the process that freed them, without queries from the others', async () => {
      const stage = new Stage();
      const processes = 6;
      const q = queue('q', { concurrency: processes });
      const fleet = await launchFleet(backend, processes, { version: 'v', workflows: [stage.wf], queues: [q] });
      await fleet[0]?.clock.advance('6s');
      await stage.wf
        .with({ queue: q, app: (fleet[0] as TestApp).app })
        .startAll(Array.from({ length: 40 }, (_, i) => [`${i}`]));
      await stage.begins(processes);
      await quiet(fleet);
      const before = fleet.map((t) => t.statements.length);
      for (let round = 1; round <= 20; round++) {
        stage.end(1);
        await stage.begins(processes + round);
        await quiet(fleet);
      }
      const counts = tally(fleet.flatMap((t, i) => t.statements.slice(before[i])));
      expect(counts.get('queues.usage') ?? 0).toBeLessThanOrEqual(20);
      expect(counts.get('workflows.dequeue-exclusive')).toBe(20);
    });

    it('are offered to the others at once when work waits that the freeing process cannot run', async () => {
      const [here, there] = [new Stage(), new Stage()];
      const q = queue('q', { concurrency: 2 });
      const database = await backend.newDatabase();
      const one = await backend.testApp({
        database,
        workflows: [here.wf],
        queues: [q],
        executorId: 'one',
        version: '1',
      });
      const more = { database, clock: one.clock, executorId: 'two', version: '2' };
      const two = await backend.testApp({ ...more, workflows: [there.wf], queues: [q] });
      await one.clock.advance('6s');
      const start = (stage: Stage, { app }: TestApp, label: string) => stage.wf.with({ queue: q, app }).start(label);
      for (const label of ['a', 'b']) await start(here, one, label);
      await here.begins(2);
      await start(there, two, 'x');
      await start(here, one, 'c');
      await start(there, two, 'y');
      await quiet([one, two]);
      // Two slots become free, and the process that frees them can use only one of them.
      here.end(2);
      await here.begins(3);
      await there.begins(1);
      expect([here.begun, there.begun]).toEqual([['a', 'b', 'c'], ['x']]);
    });
  },
  ['postgres'],
);

describeBackends(
  'a backlog',
  (backend) => {
    it('gives work to every process of a fleet', async () => {
      const workers = 4;
      const backlog = 2_000;
      const by = new Map<string, number>();
      const drained = gate();
      let ended = 0;
      const work = workflow('work', async () => {
        const { executorId } = context();
        by.set(executorId, (by.get(executorId) ?? 0) + 1);
        if (++ended === backlog) drained.open();
      });
      const fleet = await launchFleet(backend, workers, { version: 'v', workflows: [work], queues: [queue('q')] });
      const { app, clock } = fleet[0] as TestApp;
      await clock.advance('6s');
      await work.with({ queue: 'q', app }).startAll(Array.from({ length: backlog }, () => []));
      await drained.promise;
      expect(by.size).toBe(workers);
    });
  },
  ['postgres'],
);

describeBackends('delayed work in a fleet', (backend) => {
  it('is promoted by one process, which notifies the others of the next due time', async () => {
    const stage = new Stage();
    const fleet = await launchFleet(backend, 8, { version: 'v', workflows: [stage.wf], queues: [queue('q')] });
    const { app, clock } = fleet[0] as TestApp;
    await clock.advance('6s');
    for (const delay of ['1h', '2h']) await stage.wf.with({ queue: 'q', delay, app }).start(delay);
    await clock.advance('3590s');
    await quiet(fleet);
    const promotions = () => fleet.flatMap((t) => t.statements).filter((name) => name === 'workflows.promoteDue');
    const before = promotions().length;
    // Exactly to the due time: the other processes must be notified of the promotion, in real time, before the
    // clock advances further.
    await clock.advance('10s');
    await stage.begins(1);
    await quiet(fleet);
    await clock.advance('1s');
    await quiet(fleet);
    const most = backend.name === 'postgres' ? 3 : fleet.length;
    expect(promotions().length - before).toBeLessThanOrEqual(most);
    await clock.advance('1h');
    await stage.begins(2);
  });
});

function tally(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}

/** Resolves when no statement has been sent for longer than an announcement is held back and delivered. */
async function quiet(apps: readonly TestApp[]): Promise<void> {
  let last = -1;
  for (let stillFor = 0; stillFor < 8; stillFor++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    const now = apps.reduce((total, { statements }) => total + statements.length, 0);
    if (now !== last) stillFor = 0;
    last = now;
  }
}

async function settled(apps: readonly TestApp[], made: () => string[]): Promise<void> {
  await quiet(apps);
  made();
}
