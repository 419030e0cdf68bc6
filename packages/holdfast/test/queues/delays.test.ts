import { expect, it } from 'vitest';
import { queue, sleep, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, overTime } from '../support/faults.js';
import { launchFleet, Stage } from '../support/queues.js';

describeBackends('delays', (backend) => {
  const statusOf = async ({ app }: TestApp, id: string) => (await app.workflows.get(id))?.status;

  it('end exactly at the due time, on a queue or without one', async () => {
    const starts: Record<string, number> = {};
    const wf = workflow('wf', async (label: string) => {
      starts[label] = t.clock.now() - from;
    });
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q')] });
    const from = t.clock.now();
    const delays = { a: '1m', b: 1, c: '30 days', d: 0, e: '90s' };
    for (const [label, delay] of Object.entries(delays)) await wf.with({ queue: 'q', delay, id: label }).start(label);
    const { id } = await wf.with({ delay: '2m' }).start('no queue');
    expect(await t.app.workflows.get('a')).toMatchObject({ status: 'DELAYED', delayUntil: from + 60_000 });
    expect(await t.app.workflows.get(id)).toMatchObject({ status: 'DELAYED', delayUntil: from + 120_000 });
    await t.clock.advance('31 days');
    expect(starts).toEqual({ a: 60_000, b: 1, c: 2_592_000_000, d: 0, e: 90_000, 'no queue': 120_000 });
  });

  it('do not end a millisecond early', async () => {
    const wf = workflow('wf', async () => 'ran');
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q')] });
    const handle = await wf.with({ queue: 'q', delay: '1h' }).start();
    await t.clock.advance(3_599_999);
    expect(await statusOf(t, handle.id)).toBe('DELAYED');
    await t.clock.advance(1);
    expect(await statusOf(t, handle.id)).toBe('SUCCESS');
  });

  it('survive a restart: overdue work runs at once, and the rest runs on time', async () => {
    const starts: Record<string, number> = {};
    const wf = workflow('wf', async (label: string) => {
      starts[label] = t.clock.now() - from;
    });
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q')] });
    const from = t.clock.now();
    await wf.with({ queue: 'q', delay: '1m' }).start('due meanwhile');
    await wf.with({ queue: 'q', delay: '1h' }).start('still ahead');
    await t.crash();
    await t.clock.advance('30m');
    const again = await t.restart();
    await again.clock.advance('1h');
    expect(starts).toEqual({ 'due meanwhile': 1_800_000, 'still ahead': 3_600_000 });
  });

  it('can be shortened, extended or removed by setDelay, which counts from its call', async () => {
    const starts: Record<string, number> = {};
    const wf = workflow('wf', async (label: string) => {
      starts[label] = t.clock.now() - from;
    });
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q')] });
    const { setDelay } = t.app.workflows;
    const from = t.clock.now();
    for (const id of ['earlier', 'later', 'at once']) await wf.with({ queue: 'q', delay: '1h', id }).start(id);
    await t.clock.advance('10m');
    expect([await setDelay('earlier', '5m'), await setDelay('later', '2h'), await setDelay('at once', 0)]).toEqual([
      true,
      true,
      true,
    ]);
    expect(await t.app.workflows.get('later')).toMatchObject({ delayUntil: from + 130 * 60_000 });
    await t.clock.advance('3h');
    expect(starts).toEqual({ 'at once': 600_000, earlier: 900_000, later: 7_800_000 });
  });

  it('cannot be changed after they end, or for a workflow that does not exist', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', { concurrency: 1 })] });
    const { setDelay } = t.app.workflows;
    const running = await stage.wf.with({ queue: 'q' }).start('running');
    const waiting = await stage.wf.with({ queue: 'q', delay: '1s' }).start('waiting');
    const cancelled = await stage.wf.with({ queue: 'q', delay: '1h' }).start('cancelled');
    await cancelled.cancel();
    await t.clock.advance('1m');
    expect(await statusOf(t, waiting.id)).toBe('ENQUEUED');
    for (const { id } of [running, waiting, cancelled]) expect(await setDelay(id, '1h')).toBe(false);
    expect(await statusOf(t, waiting.id)).toBe('ENQUEUED');
    expect(await failure(setDelay('unknown', '1h'))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await failure(setDelay(waiting.id, 'soon'))).toMatchObject({ code: 'INVALID_DURATION' });
  });

  it('end on time, and once, in a different process than the one that enqueued', async () => {
    const stage = new Stage();
    const fleet = await launchFleet(backend, 3, { workflows: [stage.wf], queues: [queue('q')] });
    const [one, two] = fleet as [TestApp, TestApp];
    const handles = [];
    for (let i = 0; i < 20; i++) {
      handles.push(await stage.wf.with({ queue: 'q', delay: 1000 + i, app: two.app }).start(`${i}`));
    }
    await two.app.shutdown();
    await one.clock.advance('5s');
    await stage.begins(20);
    expect(stage.begun).toHaveLength(20);
    stage.end();
    const results = handles.map(({ id }) => one.app.workflows.handle(id).result());
    await overTime(one.clock, Promise.all(results), 10);
    const attempts = (await one.app.workflows.list()).map((each) => each.attempts);
    expect(attempts).toEqual(attempts.map(() => 1));
  });

  it('end even while the queue is paused, and a cancelled workflow never begins', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q')] });
    const { id } = await stage.wf.with({ queue: 'q', delay: '1m' }).start('waits');
    const cancelled = await stage.wf.with({ queue: 'q', delay: '1m' }).start('cancelled');
    await t.app.queues.pause('q');
    await cancelled.cancel();
    await t.clock.advance('1m');
    expect(await statusOf(t, id)).toBe('ENQUEUED');
    expect(stage.begun).toEqual([]);
    await t.app.queues.resume('q');
    await t.clock.advance(0);
    expect(stage.begun).toEqual(['waits']);
    expect(await failure(cancelled.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
  });

  it('of more workflows than one page end together', async () => {
    const stage = new Stage();
    const options = { maxRunning: Number.POSITIVE_INFINITY };
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q')], ...options });
    await stage.wf.with({ queue: 'q', delay: '1m' }).startAll(Array.from({ length: 1200 }, (_, i) => [`${i}`]));
    await t.clock.advance('59s');
    expect(stage.begun).toHaveLength(0);
    await t.clock.advance('1s');
    expect(stage.begun).toHaveLength(1200);
  });
});

describeBackends('timeouts of queued work', (backend) => {
  it('count from the start of the workflow, not from its enqueueing or its delay', async () => {
    const slow = workflow('slow', () => sleep('1h'));
    const t = await backend.testApp({ workflows: [slow], queues: [queue('q', { concurrency: 1 })] });
    await t.app.queues.pause('q');
    const handle = await slow.with({ queue: 'q', delay: '1m', timeout: '10m' }).start();
    await t.clock.advance('1 day');
    expect(await handle.status()).toMatchObject({ status: 'ENQUEUED', deadlineAt: undefined, timeoutMs: 600_000 });
    await t.app.queues.resume('q');
    await t.clock.advance('599s');
    const deadlineAt = t.clock.now() + 1000;
    expect(await handle.status()).toMatchObject({ status: 'PENDING', deadlineAt });
    await t.clock.advance('1s');
    expect(await handle.status()).toMatchObject({ status: 'CANCELLED', completedAt: deadlineAt });
  });

  it('continue after a crash, even while the workflow waits on its queue again', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', { concurrency: 1 })] });
    const { id } = await stage.wf.with({ queue: 'q', timeout: '10m' }).start('times out');
    await t.clock.advance('4m');
    await t.app.queues.pause('q');
    const again = await t.restart();
    await again.clock.advance('5m');
    expect(await again.app.workflows.get(id)).toMatchObject({ status: 'ENQUEUED' });
    await again.clock.advance('2m');
    expect(await again.app.workflows.get(id)).toMatchObject({ status: 'CANCELLED', reason: 'its timeout passed' });
    expect(stage.begun).toEqual(['times out']);
  });
});
