import { expect, it } from 'vitest';
import { queue, run, workflow } from '../../src/index.js';
import type { TestApp, TestAppOptions } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { announce, call, enqueueUnheard, incarnationsOf, listenTo, tokenFor } from '../support/calls.js';
import { tamper } from '../support/faults.js';
import { launchFleet, Stage } from '../support/queues.js';

/**
 * Tests which process reacts when work is announced on a queue. The clock does not move unless a test moves it, so
 * nothing happens because of a poll. The tests send calls with tokens of their choice.
 */
const pg = ['postgres'] as const;

interface Fleet {
  readonly stage: Stage;
  readonly database: string;
  readonly apps: TestApp[];
  readonly all: ReadonlyMap<string, string>;
  /** Returns the claims and queries that the app has sent since the last call. */
  readonly looks: (executor: number) => string[];
  /** Enqueues workflows, and sends a call whose token puts these executors first. */
  callFor(first: readonly string[], ids: readonly string[]): Promise<void>;
}

async function launch(backend: Backend, size: number, options: TestAppOptions = {}): Promise<Fleet> {
  const stage = new Stage();
  const database = await backend.newDatabase();
  const common = { database, workflows: [stage.wf], version: 'v', queues: [queue('q')] };
  const apps = await launchFleet(backend, size, { ...common, ...options });
  const all = await incarnationsOf(database);
  for (const { app, statements } of apps) {
    // Wait until every process has read the list of executors.
    await expect.poll(() => statements.filter((name) => name === 'executors.list').length).toBeGreaterThan(0);
    expect(app.version).toBe('v');
  }
  await apps[0]?.clock.advance('6s');
  const seen = apps.map(({ statements }) => statements.length);
  return {
    ...{ stage, database, apps, all },
    looks: (i) => {
      const made = apps[i]?.statements.slice(seen[i]) ?? [];
      seen[i] = apps[i]?.statements.length ?? 0;
      return made.filter((name) => /dequeue|queues\.(waits|usage|overview)/.test(name));
    },
    callFor: async (first, ids) => {
      await enqueueUnheard(database, ids);
      await call(database, tokenFor(first, all), ids.length);
    },
  };
}

describeBackends(
  'a call for work on a queue',
  (backend) => {
    it('leads to one claim, by the process that its token chooses', async () => {
      const { stage, apps, looks, callFor } = await launch(backend, 4);
      for (const first of ['e2', 'e0', 'e3']) {
        const before = stage.begun.length;
        await callFor([first], [first]);
        await stage.begins(before + 1);
        expect(stage.now(`on ${first}`)).toBe(1);
      }
      // The other processes do not claim later either, because they were notified of the claim.
      await told(apps);
      await apps[0]?.clock.advance('500ms');
      expect([0, 1, 2, 3].map(looks)).toEqual([
        ['workflows.dequeue-shared', 'queues.overview'],
        ['queues.overview'],
        ['workflows.dequeue-shared', 'queues.overview'],
        ['workflows.dequeue-shared', 'queues.overview'],
      ]);
    });

    it('is passed on at once by a process without a free slot', async () => {
      const { stage, apps, callFor } = await launch(backend, 3, { queues: [queue('q', { workerConcurrency: 1 })] });
      await callFor(['e1'], ['a']);
      await stage.begins(1);
      await callFor(['e1', 'e2'], ['b']);
      await stage.begins(2);
      expect([stage.now('on e1'), stage.now('on e2')]).toEqual([1, 1]);
      // This call passes two full processes.
      await told(apps);
      await callFor(['e1', 'e2', 'e0'], ['c']);
      await stage.begins(3);
      expect(stage.now('on e0')).toBe(1);
    });

    it('goes once around a full fleet, and not again until a process has a free slot', async () => {
      const size = 4;
      const { stage, database, apps } = await launch(backend, size, { queues: [queue('q', { workerConcurrency: 1 })] });
      const web = await launchWeb(backend, stage, database, apps);
      const start = (label: string) => stage.wf.with({ queue: 'q', app: web.app }).start(label);
      const heard = await listenTo(database);
      for (let i = 0; i < size; i++) await start(`${i}`);
      // If two calls in a row reach a full process, only the first call is passed on at once.
      await begunSoon(stage, apps, size);
      await start('one more');
      await told(apps);
      heard.length = 0;
      for (let i = 0; i < 10; i++) await start(`waits ${i}`);
      await told(apps);
      expect(heard.filter((payload) => payload.includes('queue:q')).length).toBeLessThanOrEqual(10 + size);
      stage.end(1);
      await stage.begins(size + 1);
    });

    it('takes tens of milliseconds, and no poll, if the chosen process has just died', async () => {
      const { stage, apps, looks, callFor } = await launch(backend, 4);
      await apps[1]?.crash();
      await apps[3]?.crash();
      await callFor(['e1', 'e3', 'e2'], ['a']);
      // The second executor is dead as well. The third and the fourth query in the same group.
      await begunSoon(stage, apps);
      expect([0, 2].flatMap(looks)).toContain('queues.waits');
    });

    it('skips processes that are known to be dead, run another version, or do not work on the queue', async () => {
      const { stage, database, apps, all: before } = await launch(backend, 2);
      const more = { database, workflows: [stage.wf], clock: clockOf(apps) };
      await backend.testApp({ ...more, executorId: 'other version', version: 'w' });
      await backend.testApp({ ...more, executorId: 'web', version: 'v', listen: ['r'] });
      await apps[1]?.crash();
      await clockOf(apps).advance('6s');
      const all = new Map([...before, ...(await incarnationsOf(database))]);
      for (const [i, first] of ['e1', 'other version', 'web'].entries()) {
        await enqueueUnheard(database, [first]);
        await call(database, tokenFor([first, 'e0'], all));
        await stage.begins(i + 1);
      }
      expect(stage.now('on e0')).toBe(3);
    });

    it('is passed on by a process that does not know the workflow', async () => {
      const other = workflow('other', async () => run('nothing', () => {}));
      const { stage, database, apps } = await launch(backend, 1);
      const stranger = { database, workflows: [other], version: 'v', executorId: 'stranger' };
      await backend.testApp({ ...stranger, clock: clockOf(apps) });
      await clockOf(apps).advance('6s');
      await enqueueUnheard(database, ['a']);
      await call(database, tokenFor(['stranger', 'e0'], await incarnationsOf(database)));
      await begunSoon(stage, apps);
    });

    it('wakes one process per workflow', async () => {
      const size = 6;
      const { stage, database, apps, looks } = await launch(backend, size, {
        queues: [queue('q', { workerConcurrency: 1 })],
      });
      const web = await launchWeb(backend, stage, database, apps);
      for (const i of apps.keys()) looks(i);
      await stage.wf.with({ queue: 'q', app: web.app }).startAll([['a'], ['b'], ['c'], ['d'], ['e'], ['f']]);
      await stage.begins(size);
      expect(apps.map((_, i) => stage.now(`on e${i}`))).toEqual(Array(size).fill(1));
    });

    it('wakes one process per workflow that is resumed', async () => {
      const size = 4;
      const queues = [queue('q', { workerConcurrency: 1 })];
      const { stage, database, apps } = await launch(backend, size, { queues });
      const { app } = await launchWeb(backend, stage, database, apps);
      const ids = ['a', 'b', 'c', 'd'];
      await enqueueUnheard(database, ids);
      await tamper(database, "update workflow_status set status = 'CANCELLED', owner_xid = null, completed_at = 1");
      await app.workflows.resume(ids);
      await stage.begins(size);
      expect(apps.map((_, i) => stage.now(`on e${i}`))).toEqual(Array(size).fill(1));
    });

    it('from an older release wakes every process, and includes what an older release understands', async () => {
      const { stage, database, apps, looks } = await launch(backend, 3, { queues: [queue('q', { concurrency: 9 })] });
      await enqueueUnheard(database, ['a']);
      await announce(database, { topics: ['queue:q'] });
      await stage.begins(1);
      await expect.poll(() => [0, 1, 2].map((i) => looks(i).length > 0)).toEqual([true, true, true]);
      const heard = await listenTo(database);
      const web = await launchWeb(backend, stage, database, apps);
      await stage.wf.with({ queue: 'q', app: web.app }).start('b');
      await expect.poll(() => heard.map((payload) => JSON.parse(payload).topics)).toContainEqual(['queue:q']);
    });

    it('that only a later release understands does no harm', async () => {
      const { stage, database, callFor } = await launch(backend, 1);
      await announce(database, { topics: [], notes: ['\n{"later":1}', 'later:x\n[]', 'queue:q\n{}', 7] });
      await callFor(['e0'], ['a']);
      await stage.begins(1);
    });
  },
  pg,
);

/** Launches a process that enqueues, and works on no queue. */
function launchWeb(backend: Backend, { wf }: Stage, database: string, apps: readonly TestApp[]): Promise<TestApp> {
  const place = { database, clock: clockOf(apps), executorId: 'web', version: 'v' };
  return backend.testApp({ ...place, workflows: [wf], listen: [] });
}

function clockOf(apps: readonly TestApp[]) {
  return (apps[0] as TestApp).clock;
}

/** Waits less than the two seconds between two polls. Then the clock stops, so no poll can start the work. */
async function begunSoon(stage: Stage, apps: readonly TestApp[], count = 1): Promise<void> {
  for (let passed = 0; passed < 1_500 && stage.begun.length < count; passed += 50) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    await clockOf(apps).advance('50ms');
  }
  await stage.begins(count);
  expect(stage.begun).toHaveLength(count);
}

/** Resolves when all earlier announcements have arrived, because a queue change announced after them has arrived. */
async function told(apps: readonly TestApp[]): Promise<void> {
  const overviews = (t: TestApp): number => t.statements.filter((name) => name === 'queues.overview').length;
  await new Promise((resolve) => setTimeout(resolve, 30));
  const before = apps.map(overviews);
  await (apps[0] as TestApp).app.queues.register(`told ${Math.random()}`);
  await expect.poll(() => apps.every((t, i) => overviews(t) > (before[i] ?? 0))).toBe(true);
}
