import { expect, it } from 'vitest';
import { context, type QueueOptions, queue, run, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { launchFleet } from '../support/queues.js';
import { go, launchWaiters, untilOnQueue } from '../support/slots.js';

const rowsOf = (t: TestApp) =>
  t.app.workflows.list().then((all) => all.map(({ status, attempts }) => `${status} ${attempts}`));

describeBackends("a workflow that waits on a queue with whileWaiting: 'release'", (backend) => {
  it.each([
    ['concurrency', { concurrency: 1 }, undefined],
    ['workerConcurrency', { workerConcurrency: 1 }, undefined],
    ['concurrency of a partition', { partition: { concurrency: 1 } }, 'p'],
    ['workerConcurrency of a partition', { partition: { workerConcurrency: 1 } }, 'p'],
  ] as [string, QueueOptions, string | undefined][])(
    'gives its slot to other workflows (%s)',
    async (_, options, partition) => {
      const { t, begun, start } = await launchWaiters(backend, options);
      const [one, two] = [await start('one', { partition }), await start('two', { partition })];
      await untilOnQueue(t, { waiting: 0, running: 0, suspended: 2 });
      expect(begun).toEqual(['one first', 'two first']);
      await go.send(one.id, 'tea');
      expect(await t.clock.runUntil(one.result())).toBe('tea');
      await go.send(two.id, 'milk');
      expect(await t.clock.runUntil(two.result())).toBe('milk');
      expect(begun).toEqual(['one first', 'two first', 'one second', 'two second']);
      expect(await rowsOf(t)).toEqual(['SUCCESS 1', 'SUCCESS 1']);
      expect(await t.app.queues.get('q')).toMatchObject({ waiting: 0, running: 0, suspended: 0 });
    },
  );

  it('keeps its slot if the queue holds slots, which is the default', async () => {
    const { t, begun, start } = await launchWaiters(backend, { concurrency: 1, whileWaiting: 'hold' });
    const [one, two] = [await start('one'), await start('two')];
    await t.clock.advance('10m');
    expect(begun).toEqual(['one first']);
    expect(await t.app.queues.get('q')).toMatchObject({ waiting: 1, running: 1, suspended: 0 });
    await Promise.all([go.send(one.id, 'tea'), go.send(two.id, 'milk')]);
    await t.clock.runUntil(Promise.all([one.result(), two.result()]));
    expect(t.statements).not.toContain('workflows.markSuspended');
  });

  it('writes nothing extra on a queue without slots', async () => {
    const { t, start } = await launchWaiters(backend, { rateLimit: { max: 5, per: '1s' } });
    const one = await start('one');
    await t.clock.advance('10m');
    await go.send(one.id, 'tea');
    expect(await t.clock.runUntil(one.result())).toBe('tea');
    expect(t.statements.filter((name) => /markSuspended|release/.test(name))).toEqual([]);
  });

  it('is suspended after suspendAfter, and not before', async () => {
    const { t, begun, start } = await launchWaiters(
      backend,
      { concurrency: 1 },
      { suspendAtOnce: false, suspendAfter: '30s' },
    );
    const startedAt = t.clock.now();
    await start('one');
    await start('two');
    for (let second = 0; second < 29; second++) await t.clock.advance('1s');
    expect(begun).toEqual(['one first']);
    await untilOnQueue(t, { suspended: 1, running: 1 });
    expect(t.clock.now() - startedAt).toBeLessThan(35_000);
  });

  it('continues only when a slot is free, and before work that never ran', async () => {
    const { t, begun, start, hold } = await launchWaiters(backend, { concurrency: 1 });
    const early = await start('early');
    await untilOnQueue(t, { suspended: 1 });
    const busy = await hold();
    await untilOnQueue(t, { suspended: 1, running: 1 });
    const late = await start('late');
    await go.send(early.id, 'tea');
    await untilOnQueue(t, { waiting: 2, running: 1 });
    expect(begun).toEqual(['early first']);
    expect(await early.status()).toMatchObject({ status: 'ENQUEUED', attempts: 0 });
    t.signals.emit('end');
    await t.clock.runUntil(busy.result());
    expect(await t.clock.runUntil(early.result())).toBe('tea');
    await untilOnQueue(t, { suspended: 1 });
    expect(begun).toEqual(['early first', 'early second', 'late first']);
    await late.cancel();
  });

  it('continues after work of a higher priority', async () => {
    const { t, begun, start, hold } = await launchWaiters(backend, { concurrency: 1 });
    const low = await start('low', { priority: 5 });
    await untilOnQueue(t, { suspended: 1 });
    const busy = await hold();
    await untilOnQueue(t, { running: 1 });
    await go.send(low.id, 'tea');
    await untilOnQueue(t, { waiting: 1 });
    await start('high', { priority: 1 });
    await start('lower', { priority: 6 });
    t.signals.emit('end');
    await busy.result();
    await untilOnQueue(t, { suspended: 2, waiting: 0 });
    expect(begun).toEqual(['low first', 'high first', 'low second', 'lower first']);
  });

  it('avoids a deadlock of parents that wait for children on the same queue of one slot', async () => {
    const queues = [queue('one', { concurrency: 1, whileWaiting: 'release' })];
    const leaf = workflow('leaf', async (n: number) => run('leaf', () => n));
    const inner = workflow('inner', async (n: number) => (await leaf.with({ queue: 'one' })(n)) + 10);
    const outer = workflow('outer', async (n: number) => {
      const handles = await inner.with({ queue: 'one' }).startAll([[n], [n + 1]]);
      const results: number[] = [];
      for (const handle of handles) results.push(await handle.result());
      return results;
    });
    // Only suspendAfter suspends workflows in this test.
    const options = { workflows: [leaf, inner, outer], queues, suspendAfter: '10s', suspendAtOnce: false };
    const t = await backend.testApp(options);
    const handles = [await outer.with({ queue: 'one' }).start(1), await outer.with({ queue: 'one' }).start(5)];
    const results = await t.clock.runUntil(Promise.all(handles.map((handle) => handle.result())));
    expect(results).toEqual([
      [11, 12],
      [15, 16],
    ]);
    expect(new Set(await rowsOf(t))).toEqual(new Set(['SUCCESS 1']));
  });

  it('frees its slot for other processes, and continues in a process that has a free slot', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async (hold: boolean) => {
      if (hold) await run('hold', () => e0?.signals.wait('end'));
      await run('first', () => void ran.push(context().executorId));
      await go.receive({ timeout: '1h' });
      return run('second', () => context().executorId);
    });
    const queues = [queue('q', { concurrency: 2, workerConcurrency: 1, whileWaiting: 'release' })];
    const fleet = await launchFleet(backend, 2, { workflows: [wf], queues, suspendAtOnce: true, version: 'v1' });
    const [e0, e1] = fleet as [TestApp, TestApp];
    const start = (hold = false) => wf.with({ queue: 'q', app: e0.app }).start(hold);
    const handles = [];
    for (let i = 0; i < 6; i++) handles.push(await start());
    await untilOnQueue(e0, { waiting: 0, running: 0, suspended: 6 });
    expect(ran).toHaveLength(6);
    // One of the two processes is busy now, so all workflows continue in the other.
    const holding = await start(true);
    await untilOnQueue(e0, { running: 1, suspended: 6 });
    const busy = (await e0.app.workflows.get(holding.id))?.executorId;
    for (const { id } of handles) await go.send(id, 'on', { app: e1.app });
    const results = await e0.clock.runUntil(Promise.all(handles.map((handle) => handle.result())));
    expect(new Set(results)).toEqual(new Set([busy === 'e0' ? 'e1' : 'e0']));
    e0.signals.emit('end');
    await untilOnQueue(e0, { suspended: 1 });
    await holding.cancel();
  });
});
