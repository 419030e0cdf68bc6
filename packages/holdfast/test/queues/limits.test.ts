import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { playOut, Stage } from '../support/queues.js';

/** Tests each limit by itself, in one process. See combined-limits.test.ts for several limits together. */
describeBackends('limits of a queue', (backend) => {
  const numbers = (count: number): [string][] => Array.from({ length: count }, (_, i) => [`${i}`]);

  it('are off by default: everything that waits runs at once', async () => {
    const stage = new Stage();
    const q = queue('q');
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: q }).startAll(numbers(450));
    await t.clock.advance(0);
    expect(stage.now()).toBe(450);
  });

  it('concurrency limits how many run at once, and each end lets the next workflow start', async () => {
    const stage = new Stage();
    const q = queue('q', { concurrency: 3 });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: 'q' }).startAll(numbers(10));
    await t.clock.advance(0);
    expect(stage.begun).toHaveLength(3);
    stage.end(1);
    await t.clock.advance(0);
    expect(stage.begun).toHaveLength(4);
    await t.clock.advance('5s');
    expect(stage.begun).toHaveLength(4);
    await playOut(stage, 10);
    expect(stage.peak()).toBe(3);
  });

  it('concurrency counts failed and cancelled workflows as ended', async () => {
    const stage = new Stage();
    const fails = workflow('fails', async () => {
      stage.begun.push('fails');
      throw new Error('no');
    });
    const q = queue('q', { concurrency: 1 });
    const t = await backend.testApp({ workflows: [stage.wf, fails], queues: [q] });
    const first = await stage.wf.with({ queue: q }).start('first');
    const waiting = await stage.wf.with({ queue: q }).start('waiting');
    await fails.with({ queue: q }).start();
    await stage.wf.with({ queue: q }).start('last');
    await t.clock.advance(0);
    await waiting.cancel();
    await first.cancel();
    await t.clock.advance(0);
    expect(stage.begun).toEqual(['first', 'fails', 'last']);
  });

  it('workerConcurrency limits how many run at once in this process', async () => {
    const stage = new Stage();
    const q = queue('q', { workerConcurrency: 2 });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: q }).startAll(numbers(7));
    await t.clock.advance('5s');
    expect(stage.begun).toHaveLength(2);
    stage.end(1);
    await t.clock.advance(0);
    expect(stage.begun).toHaveLength(3);
    await playOut(stage, 7);
    expect(stage.peak()).toBe(2);
  });

  it.each([{ workerConcurrency: 1 }, { partition: { workerConcurrency: 1 } }])(
    'workerConcurrency counts workflows that are cancelled or pass their deadline as ended: %j',
    async (limits) => {
      const stage = new Stage();
      const q = queue('q', limits);
      const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
      const start = stage.wf.with({ queue: q, ...('partition' in limits && { partition: 'p' }), timeout: '1m' });
      const handles = await start.startAll([['cancelled'], ['late'], ['last']]);
      await t.clock.advance(0);
      expect(stage.begun).toEqual(['cancelled']);
      await handles[0]?.cancel();
      await t.clock.advance(0);
      expect(stage.begun).toEqual(['cancelled', 'late']);
      await t.clock.advance('1m');
      await t.clock.advance(0);
      expect(stage.begun).toEqual(['cancelled', 'late', 'last']);
    },
  );

  it('rateLimit limits how many start in any window of its period, to the millisecond', async () => {
    const starts: number[] = [];
    const q = queue('q', { rateLimit: { max: 3, per: '1m' } });
    const wf = workflow('wf', async () => void starts.push(t.clock.now()));
    const t = await backend.testApp({ workflows: [wf], queues: [q] });
    const from = t.clock.now();
    await wf.with({ queue: q }).startAll([[], []]);
    await t.clock.advance('40s');
    await wf.with({ queue: q }).startAll([[], [], [], []]);
    await t.clock.advance('19999ms');
    // A new workflow triggers a query one millisecond early.
    await wf.with({ queue: q }).start();
    await t.clock.advance('10m');
    expect(starts.map((at) => at - from)).toEqual([0, 0, 40_000, 60_000, 60_000, 100_000, 120_000]);
  });

  it('rateLimit lets the next workflows start on time even if earlier ones still run', async () => {
    const stage = new Stage();
    const q = queue('q', { rateLimit: { max: 2, per: '100ms' } });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: q }).startAll(numbers(5));
    await t.clock.advance('99ms');
    expect(stage.begun).toHaveLength(2);
    await t.clock.advance('1ms');
    expect(stage.begun).toHaveLength(4);
    await t.clock.advance('100ms');
    expect(stage.now()).toBe(5);
  });

  it('partition.concurrency limits how many workflows of each key run at once', async () => {
    const stage = new Stage();
    const q = queue('q', { partition: { concurrency: 2 } });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    for (const partition of ['a', 'b', 'c']) {
      await stage.wf.with({ queue: q, partition }).startAll(['1', '2', '3', '4', '5'].map((n) => [n, partition]));
    }
    await t.clock.advance(0);
    expect(['a', 'b', 'c'].map((key) => stage.now(`group ${key}`))).toEqual([2, 2, 2]);
    stage.end(1);
    await t.clock.advance(0);
    expect(['a', 'b', 'c'].map((key) => stage.now(`group ${key}`))).toEqual([2, 2, 2]);
    expect(stage.begun).toHaveLength(7);
    await playOut(stage, 15);
    expect(['a', 'b', 'c'].map((key) => stage.peak(`group ${key}`))).toEqual([2, 2, 2]);
  });

  it('partition.workerConcurrency limits how many workflows of each key run at once in this process', async () => {
    const stage = new Stage();
    const q = queue('q', { partition: { workerConcurrency: 1 } });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    for (const partition of ['a', 'b']) {
      await stage.wf.with({ queue: q, partition }).startAll(['1', '2', '3'].map((n) => [n, partition]));
    }
    await t.clock.advance('5s');
    expect([stage.now('group a'), stage.now('group b')]).toEqual([1, 1]);
    await playOut(stage, 6);
    expect([stage.peak('group a'), stage.peak('group b')]).toEqual([1, 1]);
  });

  it('partition.rateLimit limits how many workflows of each key start, independently of other keys', async () => {
    const starts: Record<string, number[]> = { a: [], b: [] };
    const q = queue('q', { partition: { rateLimit: { max: 1, per: '10s' } } });
    const wf = workflow('wf', async (key: string) => void starts[key]?.push(t.clock.now() - from));
    const t = await backend.testApp({ workflows: [wf], queues: [q] });
    const from = t.clock.now();
    await wf.with({ queue: q, partition: 'a' }).startAll([['a'], ['a'], ['a']]);
    await t.clock.advance('4s');
    await wf.with({ queue: q, partition: 'b' }).startAll([['b'], ['b']]);
    await t.clock.advance('1m');
    expect(starts).toEqual({ a: [0, 10_000, 20_000], b: [4_000, 14_000] });
  });

  it('partition.rateLimit lets a key start its next workflow on time even if the last one still runs', async () => {
    const stage = new Stage();
    const q = queue('q', { partition: { rateLimit: { max: 1, per: '100ms' } } });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: q, partition: 'a' }).startAll(numbers(3));
    await t.clock.advance('100ms');
    expect(stage.begun).toHaveLength(2);
    await t.clock.advance('100ms');
    expect(stage.now()).toBe(3);
  });

  it('partition {} sets no limit: everything that waits runs at once', async () => {
    const stage = new Stage();
    const q = queue('q', { partition: {} });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: q }).startAll(numbers(300), (_, i) => ({ partition: `${i % 250}` }));
    await t.clock.advance(0);
    expect(stage.now()).toBe(300);
  });

  it('hold in every partition, even if there are more partitions than one query reads', async () => {
    const stage = new Stage();
    const q = queue('q', { partition: { concurrency: 1 } });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: q }).startAll(numbers(500), (_, i) => ({ partition: `key ${i % 250}` }));
    await t.clock.advance(0);
    expect(stage.now()).toBe(250);
    stage.end();
    await t.clock.advance(0);
    expect(stage.begun).toHaveLength(500);
    expect(stage.peak()).toBe(250);
  });
});
