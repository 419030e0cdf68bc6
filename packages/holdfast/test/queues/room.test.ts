import { expect, it } from 'vitest';
import { type LaunchOptions, launch, queue, run, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, gate } from '../support/faults.js';
import { launchFleet, playOut, Stage } from '../support/queues.js';

/** Tests how many queued workflows a process runs at once (`maxRunning`), and how many it leaves to others. */
describeBackends('a process with a long backlog', (backend) => {
  const labels = (count: number): [string][] => Array.from({ length: count }, (_, i) => [`${i}`]);

  it.each([
    ['without limits', {}, {}],
    ['with a limit of the fleet', { concurrency: 1_000 }, {}],
    ['with partitions', { partition: { concurrency: 1_000 } }, { partition: 'a' }],
  ])('runs at most maxRunning workflows of all queues together (%s)', async (_, options, start) => {
    const stage = new Stage();
    const queues = ['p', 'q', 'r'].map((name) => queue(name, options));
    const t = await backend.testApp({ workflows: [stage.wf], queues, maxRunning: 10 });
    for (const each of queues) await stage.wf.with({ queue: each, ...start }).startAll(labels(20));
    await stage.begins(10);
    await t.clock.advance('900ms', { whileRunning: true });
    expect(stage.now()).toBe(10);
    await playOut(stage, 60);
    const ended = async () => (await t.app.workflows.list({ status: 'SUCCESS' })).length;
    await expect.poll(ended).toBe(60);
    expect(stage.peak()).toBe(10);
  });

  it('runs a thousand workflows at once by default, and all of them with Infinity', async () => {
    for (const [options, most] of [
      [{}, 1_000],
      [{ maxRunning: Number.POSITIVE_INFINITY }, 1_100],
    ] as const) {
      const stage = new Stage();
      const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q')], ...options });
      await stage.wf.with({ queue: 'q', app: t.app }).startAll(labels(1_100));
      await stage.begins(most);
      await t.clock.advance('900ms', { whileRunning: true });
      expect(stage.now()).toBe(most);
      await playOut(stage, 1_100);
      await t.stop();
    }
  });

  it('does not count workflows that only wait, so waiting parents do not block their children', async () => {
    const leaf = workflow('leaf', (n: number) => run('work', () => n));
    const parent = workflow('parent', async (n: number) => (await leaf.with({ queue: 'q' }).start(n)).result());
    const t = await backend.testApp({ workflows: [leaf, parent], queues: [queue('q')], maxRunning: 1 });
    const handles = await parent.with({ queue: 'q', app: t.app }).startAll([[0], [1], [2]]);
    const before = t.clock.now();
    const results = Promise.all(handles.map((handle) => handle.result()));
    expect(await t.clock.runUntil(results)).toEqual([0, 1, 2]);
    // The process detects the waiting parents quickly, long before it takes extra work because nothing ends.
    expect(t.clock.now() - before).toBeLessThan(1_000);
  });

  it('takes a little more when nothing ends, because a step may wait for work that is still queued', async () => {
    const done = gate();
    const waits = workflow('waits', () => run('wait', () => done.promise));
    const opens = workflow('opens', () => run('open', () => done.open()));
    const t = await backend.testApp({ workflows: [waits, opens], queues: [queue('q')], maxRunning: 2 });
    const handles = await waits.with({ queue: 'q' }).startAll([[], [], []]);
    const last = await opens.with({ queue: 'q' }).start();
    await t.clock.advance('900ms', { whileRunning: true });
    expect(await last.status()).toMatchObject({ status: 'ENQUEUED' });
    await t.clock.advance('300ms', { whileRunning: true });
    await last.result();
    await Promise.all(handles.map((handle) => handle.result()));
  });

  it('takes only a share of a short backlog at first, and more later', async () => {
    const stage = new Stage();
    const options = { workflows: [stage.wf], queues: [queue('q')] };
    const [first, ...others] = (await launchFleet(backend, 4, options)) as [TestApp, ...TestApp[]];
    // After six seconds the first process knows the others.
    await first.clock.advance('6s');
    await first.app.queues.pause('q');
    await stage.wf.with({ queue: 'q', app: first.app }).startAll(labels(300));
    // A single process would take 200 workflows as its first page.
    await first.app.queues.resume('q');
    await stage.begins(200);
    await first.clock.advance(0, { whileRunning: true });
    const shares = ['e0', 'e1', 'e2', 'e3'].map((id) => stage.now(`on ${id}`));
    expect(shares).toEqual([50, 50, 50, 50]);
    for (const other of others) await other.crash();
    expect(stage.begun).toHaveLength(200);
    // The work of the crashed processes is not recovered yet, because detecting their death takes longer than 200 ms.
    await first.clock.advance('200ms', { whileRunning: true });
    expect(stage.now('on e0')).toBeGreaterThan(50);
  });

  it.each([0, -1, 1.5, Number.NaN, '10', null])('refuses %s as maxRunning', async (maxRunning) => {
    const options = { name: 'test', database: 'sqlite::memory:', logger: silent, maxRunning } as LaunchOptions;
    expect(await failure(launch(options))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/maxRunning.*Infinity/),
    });
  });
});
