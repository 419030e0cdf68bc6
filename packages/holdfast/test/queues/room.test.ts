import { expect, it } from 'vitest';
import { type LaunchOptions, launch, queue, run, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, gate } from '../support/faults.js';
import { launchFleet, playOut, Stage } from '../support/queues.js';

/** How much of its queues a process has in hand: `maxRunning`, and what it leaves to others. */
describeBackends('a process with much on its queues', (backend) => {
  const labels = (count: number): [string][] => Array.from({ length: count }, (_, i) => [`${i}`]);

  it.each([
    ['without limits', {}, {}],
    ['with a limit of the fleet', { concurrency: 1_000 }, {}],
    ['with partitions', { partition: { concurrency: 1_000 } }, { partition: 'a' }],
  ])('has maxRunning in hand and no more, over all queues together (%s)', async (_, options, start) => {
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

  it('has a thousand in hand by default, and all there are with Infinity', async () => {
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

  it('does not count those that only wait: parents do not keep out the children that they wait for', async () => {
    const leaf = workflow('leaf', (n: number) => run('work', () => n));
    const parent = workflow('parent', async (n: number) => (await leaf.with({ queue: 'q' }).start(n)).result());
    const t = await backend.testApp({ workflows: [leaf, parent], queues: [queue('q')], maxRunning: 1 });
    const handles = await parent.with({ queue: 'q', app: t.app }).startAll([[0], [1], [2]]);
    const before = t.clock.now();
    const results = Promise.all(handles.map((handle) => handle.result()));
    expect(await t.clock.runUntil(results)).toEqual([0, 1, 2]);
    // It is found in a moment that they wait, long before more is taken because nothing comes free.
    expect(t.clock.now() - before).toBeLessThan(1_000);
  });

  it('takes a little more when nothing comes free: a step may wait for work that is still on a queue', async () => {
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

  it('leaves a short backlog to the others too: it takes a share at first, and more when that is half done', async () => {
    const stage = new Stage();
    const options = { workflows: [stage.wf], queues: [queue('q')] };
    const [first, ...others] = (await launchFleet(backend, 4, options)) as [TestApp, ...TestApp[]];
    // The first has looked at the others by then.
    await first.clock.advance('6s');
    await first.app.queues.pause('q');
    await stage.wf.with({ queue: 'q', app: first.app }).startAll(labels(300));
    // 200 are the first page of one process alone.
    await first.app.queues.resume('q');
    await stage.begins(200);
    await first.clock.advance(0, { whileRunning: true });
    const shares = ['e0', 'e1', 'e2', 'e3'].map((id) => stage.now(`on ${id}`));
    expect(shares).toEqual([50, 50, 50, 50]);
    for (const other of others) await other.crash();
    expect(stage.begun).toHaveLength(200);
    // Those of the others do not come back before they are seen to be dead, which takes longer than this.
    await first.clock.advance('200ms', { whileRunning: true });
    expect(stage.now('on e0')).toBeGreaterThan(50);
  });

  it.each([0, -1, 1.5, Number.NaN, '10', null])('refuses to have %s in hand', async (maxRunning) => {
    const options = { name: 'test', database: 'sqlite::memory:', logger: silent, maxRunning } as LaunchOptions;
    expect(await failure(launch(options))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/maxRunning.*Infinity/),
    });
  });
});
