import { expect, it } from 'vitest';
import { run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure } from '../support/faults.js';
import { go, launchWaiters, untilOnQueue } from '../support/slots.js';

/** Tests what can happen to a workflow after it gave its slot back: before its wake-up and after it. */
describeBackends('a workflow that has given its slot back', (backend) => {
  const one = { concurrency: 1 };

  it('is recovered when its process dies, and wakes up in time', async () => {
    const { t, begun, start } = await launchWaiters(backend, one);
    const startedAt = t.clock.now();
    const handles = [await start('a'), await start('b'), await start('c')];
    await untilOnQueue(t, { suspended: 3 });
    const again = await t.restart();
    await untilOnQueue(again, { suspended: 3, waiting: 0, running: 0 });
    const [first, ...others] = handles.map(({ id }) => again.app.workflows.handle<string>(id));
    await go.send(first?.id ?? '', 'tea');
    expect(await again.clock.runUntil(first?.result() as Promise<string>)).toBe('tea');
    expect(await again.clock.runUntil(Promise.all(others.map((each) => each.result())))).toEqual(['none', 'none']);
    expect(again.clock.now() - startedAt).toBeLessThan(3_630_000);
    expect(begun.filter((each) => each.endsWith('first'))).toHaveLength(3);
    expect((await again.app.workflows.list()).map(({ attempts }) => attempts)).toEqual([2, 2, 2]);
  });

  it('does not hold the slot for suspendAfter again when it is recovered, because it has waited already', async () => {
    const slow = { suspendAtOnce: false, suspendAfter: '10m' };
    const { t, start } = await launchWaiters(backend, one);
    for (let i = 0; i < 10; i++) await start(`${i}`);
    await untilOnQueue(t, { suspended: 10 });
    await t.clock.advance('11m');
    const again = await t.restart(slow);
    const restartedAt = again.clock.now();
    await untilOnQueue(again, { suspended: 10 });
    expect(again.clock.now() - restartedAt).toBeLessThan(60_000);
  });

  it('is handed over by a shutdown, which counts no attempt', async () => {
    const { t, start, launch } = await launchWaiters(backend, one);
    const { id } = await start('a');
    await untilOnQueue(t, { suspended: 1 });
    await t.app.shutdown();
    const next = await backend.testApp({ ...launch, clock: t.clock, executorId: 'next' });
    await untilOnQueue(next, { suspended: 1 });
    expect(await next.app.workflows.get(id)).toMatchObject({ attempts: 1, executorId: 'next' });
    await go.send(id, 'tea');
    expect(await next.clock.runUntil(next.app.workflows.handle(id).result())).toBe('tea');
    expect(await next.app.workflows.get(id)).toMatchObject({ attempts: 1 });
  });

  it('does not continue in its old process after another process has taken it over', async () => {
    const { t, begun, start, launch } = await launchWaiters(backend, one, { executorId: 'first' });
    const handle = await start('a');
    const result = handle.result();
    await untilOnQueue(t, { suspended: 1 });
    const second = await backend.testApp({ ...launch, clock: t.clock, executorId: 'second' });
    await second.app.recovery.recover(['first']);
    await go.send(handle.id, 'tea', { app: second.app });
    expect(await t.clock.runUntil(result)).toBe('tea');
    expect(begun).toEqual(['a first', 'a second']);
  });

  it('can be cancelled while it is suspended or waits for a slot, and a resume counts as a new start', async () => {
    const { t, begun, start, hold } = await launchWaiters(backend, one);
    const [a, b] = [await start('a'), await start('b')];
    await untilOnQueue(t, { suspended: 2 });
    const ending = failure(a.result());
    await a.cancel();
    expect(await ending).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    await hold();
    await untilOnQueue(t, { running: 1 });
    await go.send(b.id, 'tea');
    await untilOnQueue(t, { waiting: 1 });
    await b.cancel();
    expect(await failure(b.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    const resumedAt = t.clock.now();
    for (const { id } of [a, b]) await t.app.workflows.resume(id);
    t.signals.emit('end');
    await go.send(a.id, 'milk');
    expect(await t.clock.runUntil(Promise.all([a.result(), b.result()]))).toEqual(['milk', 'tea']);
    for (const { startedAt } of await t.app.workflows.list({ name: 'waiter' })) {
      expect(startedAt).toBeGreaterThanOrEqual(resumedAt);
    }
    expect(begun.filter((each) => each.endsWith('first'))).toHaveLength(2);
  });

  it('keeps its deadline while it is suspended and while it waits for a slot', async () => {
    const { t, begun, start, hold } = await launchWaiters(backend, one);
    const startedAt = t.clock.now();
    const resting = await start('a', { timeout: '62s' });
    const back = await start('b', { timeout: '80s' });
    await untilOnQueue(t, { suspended: 2 });
    await hold();
    await untilOnQueue(t, { running: 1 });
    await go.send(back.id, 'tea');
    await untilOnQueue(t, { waiting: 1, suspended: 1 });
    // A suspended workflow is cancelled exactly at its deadline, without going back to the queue.
    // A workflow that waits on the queue is cancelled a little later, by the sweep.
    expect(await t.clock.runUntil(failure(resting.result()))).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(t.clock.now() - startedAt).toBe(62_000);
    expect(t.statements.filter((name) => name === 'workflows.release')).toHaveLength(1);
    expect(await t.clock.runUntil(failure(back.result()))).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(t.clock.now() - startedAt).toBeLessThan(95_000);
    t.signals.emit('end');
    await untilOnQueue(t, { running: 0, waiting: 0 });
    expect(begun).toEqual(['a first', 'b first']);
  });

  it('waits until a pause of its queue ends', async () => {
    const { t, begun, start } = await launchWaiters(backend, one);
    const handle = await start('a');
    await untilOnQueue(t, { suspended: 1 });
    await t.app.queues.pause('q');
    await go.send(handle.id, 'tea');
    await untilOnQueue(t, { waiting: 1, suspended: 0 });
    await t.clock.advance('10m');
    expect(begun).toEqual(['a first']);
    await t.app.queues.resume('q');
    expect(await t.clock.runUntil(handle.result())).toBe('tea');
  });

  it('blocks the reuse of its dedupId and the deletion of its queue until it ends', async () => {
    const { t, start } = await launchWaiters(backend, one);
    const handle = await start('a', { dedupId: 'key' });
    await untilOnQueue(t, { suspended: 1 });
    expect(await failure(start('b', { dedupId: 'key' }))).toMatchObject({ code: 'QUEUE_DUPLICATE' });
    expect(await failure(t.app.queues.delete('q'))).toMatchObject({ code: 'QUEUE_NOT_EMPTY' });
    await t.app.queues.pause('q');
    await go.send(handle.id, 'tea');
    await untilOnQueue(t, { waiting: 1 });
    expect(await failure(start('b', { dedupId: 'key' }))).toMatchObject({ code: 'QUEUE_DUPLICATE' });
    await t.app.queues.resume('q');
    await t.clock.runUntil(handle.result());
    await (await start('b', { dedupId: 'key' })).cancel();
    await t.app.queues.delete('q');
  });

  it('cannot change priority while it is suspended, but can while it waits for a slot', async () => {
    const { t, begun, start, hold } = await launchWaiters(backend, one);
    const [a, b] = [await start('a'), await start('b')];
    await untilOnQueue(t, { suspended: 2 });
    expect(await t.app.workflows.setPriority(a.id, 9)).toBe(false);
    await hold();
    await untilOnQueue(t, { running: 1 });
    await Promise.all([go.send(a.id, 'tea'), go.send(b.id, 'milk')]);
    await untilOnQueue(t, { waiting: 2 });
    expect(await t.app.workflows.setPriority(a.id, 9)).toBe(true);
    t.signals.emit('end');
    await t.clock.runUntil(Promise.all([a.result(), b.result()]));
    expect(begun.slice(2)).toEqual(['b second', 'a second']);
  });

  it('returns through the queue even if the queue has been changed to hold slots', async () => {
    const { t, begun, start } = await launchWaiters(backend, one);
    const [a, b] = [await start('a'), await start('b')];
    await untilOnQueue(t, { suspended: 2 });
    expect(await t.app.queues.update('q', { whileWaiting: 'hold' })).toMatchObject({ whileWaiting: 'hold' });
    const c = await start('c');
    await untilOnQueue(t, { suspended: 2, running: 1 });
    await Promise.all([go.send(a.id, 'tea'), go.send(b.id, 'milk')]);
    await untilOnQueue(t, { waiting: 2, running: 1 });
    expect(begun).toEqual(['a first', 'b first', 'c first']);
    await go.send(c.id, 'water');
    expect(await t.clock.runUntil(Promise.all([a, b, c].map((each) => each.result())))).toEqual([
      'tea',
      'milk',
      'water',
    ]);
  });

  it('does not start again when it continues: the rate limit does not count it, and startedAt stays', async () => {
    const { t, begun, start } = await launchWaiters(backend, { ...one, rateLimit: { max: 2, per: '10m' } });
    const a = await start('a');
    await untilOnQueue(t, { suspended: 1 });
    const { startedAt } = await a.status();
    await t.clock.advance('11m');
    const b = await start('b');
    await untilOnQueue(t, { suspended: 2 });
    await go.send(a.id, 'tea');
    await t.clock.runUntil(a.result());
    expect((await a.status()).startedAt).toBe(startedAt);
    // The second start within ten minutes. If the return of the first workflow counted, it would be the third.
    await start('c');
    await untilOnQueue(t, { suspended: 2, waiting: 0 });
    expect(begun.at(-1)).toBe('c first');
    await go.send(b.id, 'milk');
  });

  it('makes progress even if its code also awaits something that is not recorded', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => {
      bodies++;
      const besides = async (): Promise<string> => {
        await new Promise<void>((resolve) => void t.clock.at(t.clock.now() + 30_000, resolve));
        return run('charge', () => 'charged');
      };
      return Promise.race([sleep('30d'), besides()]);
    });
    const { t } = await launchWaiters(backend, one, { suspendAtOnce: false, suspendAfter: '1s' });
    await t.app.register(wf);
    const startedAt = t.clock.now();
    const handle = await wf.with({ queue: 'q', app: t.app }).start();
    await untilOnQueue(t, { suspended: 1 });
    // The second time the workflow stays in memory. Otherwise the unrecorded wait would start over forever.
    while (t.clock.now() - startedAt < 75_000) await t.clock.advance('1s');
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS', output: 'charged' });
    expect(bodies).toBe(2);
  });
});
