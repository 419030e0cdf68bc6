import { afterEach, expect, it, vi } from 'vitest';
import { connect, queue, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { launchFleet, playOut, Stage } from '../support/queues.js';

/** Tests combinations of limits: queue and partitions, fleet and process, concurrency and rate. */
describeBackends('combined limits of a queue', (backend) => {
  afterEach(() => vi.restoreAllMocks());

  const labels = (count: number): string[] => Array.from({ length: count }, (_, i) => `${i}`);

  it('hold at all times for the whole queue and for each partition', async () => {
    const stage = new Stage();
    const q = queue('q', { concurrency: 5, partition: { concurrency: 2 } });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    const keys = ['a', 'b', 'c', 'd'];
    for (const partition of keys) {
      await stage.wf.with({ queue: q, partition }).startAll(labels(8).map((n) => [n, partition]));
    }
    await t.clock.advance(0);
    expect(stage.now()).toBe(5);
    for (let begun = 5; begun < 32; begun++) {
      stage.end(1);
      await stage.begins(begun + 1);
    }
    expect(stage.peak()).toBe(5);
    expect(keys.map((key) => stage.peak(`group ${key}`))).toEqual([2, 2, 2, 2]);
  });

  it('hold for each process, each partition, and each partition within a process', async () => {
    const stage = new Stage();
    const limits = { workerConcurrency: 3, partition: { concurrency: 4, workerConcurrency: 2 } };
    const [one, two] = (await launchFleet(backend, 2, {
      workflows: [stage.wf],
      queues: [queue('q', limits)],
    })) as [TestApp, TestApp];
    for (const partition of ['a', 'b', 'c']) {
      await stage.wf.with({ queue: 'q', partition, app: one.app }).startAll(labels(6).map((n) => [n, partition]));
    }
    await stage.begins(6);
    await two.clock.advance('5s');
    expect([stage.now(), stage.now('on e0'), stage.now('on e1')]).toEqual([6, 3, 3]);
    await playOut(stage, 18);
    for (const key of ['a', 'b', 'c']) {
      expect(stage.peak(`group ${key}`)).toBeLessThanOrEqual(4);
      for (const executor of ['e0', 'e1']) expect(stage.peak(`${key} on ${executor}`)).toBeLessThanOrEqual(2);
    }
    expect([stage.peak('on e0'), stage.peak('on e1')]).toEqual([3, 3]);
  });

  it('hold for the fleet and for each of three processes', async () => {
    const stage = new Stage();
    const q = queue('q', { concurrency: 5, workerConcurrency: 2 });
    const fleet = await launchFleet(backend, 3, { workflows: [stage.wf], queues: [q] });
    const [first] = fleet as [TestApp];
    await stage.wf.with({ queue: q, app: first.app }).startAll(labels(40).map((n) => [n]));
    await stage.begins(5);
    await first.clock.advance('5s');
    expect(stage.begun).toHaveLength(5);
    await playOut(stage, 40);
    expect(stage.peak()).toBe(5);
    for (const executor of ['e0', 'e1', 'e2']) expect(stage.peak(`on ${executor}`)).toBeLessThanOrEqual(2);
  });

  it('leave no slot unused that another process could fill, even without a poll', async () => {
    const stage = new Stage();
    const q = queue('q', { concurrency: 100, workerConcurrency: 1 });
    const database = await backend.newDatabase();
    const [first] = (await launchFleet(backend, 3, { database, workflows: [stage.wf], queues: [q] })) as [TestApp];
    // All processes are notified at the same moment, and compete for the work.
    const client = await connect({ database, logger: silent });
    for (let round = 1; round <= 10; round++) {
      await client.startAll('staged', { queue: 'q' }, [['a'], ['b'], ['c']]);
      await stage.begins(3 * round);
      stage.end();
      await first.clock.advance(0);
    }
    await client.close();
    expect(stage.peak()).toBe(3);
  });

  it('hold for rate and concurrency: a start waits for a free slot and for the rate', async () => {
    const stage = new Stage();
    const q = queue('q', { concurrency: 2, rateLimit: { max: 3, per: '1m' } });
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: q }).startAll(labels(8).map((n) => [n]));
    await t.clock.advance('10s');
    expect(stage.begun).toHaveLength(2);
    stage.end();
    await t.clock.advance('49999ms');
    expect(stage.begun).toHaveLength(3);
    stage.end();
    await t.clock.advance('1ms');
    expect(stage.begun).toHaveLength(5);
    await t.clock.advance('5m');
    expect(stage.begun).toHaveLength(5);
    stage.end();
    await t.clock.advance(0);
    expect(stage.begun).toHaveLength(7);
    expect(stage.peak()).toBe(2);
  });

  it('hold for the rates of the whole queue and of each partition', async () => {
    const starts: [string, number][] = [];
    const q = queue('q', { rateLimit: { max: 3, per: '10s' }, partition: { rateLimit: { max: 1, per: '4s' } } });
    const wf = workflow('wf', async (key: string) => void starts.push([key, t.clock.now() - from]));
    const t = await backend.testApp({ workflows: [wf], queues: [q] });
    const from = t.clock.now();
    for (const partition of ['a', 'b']) {
      await wf.with({ queue: q, partition }).startAll([[partition], [partition], [partition]]);
    }
    await t.clock.advance('1m');
    const of = (wanted: string) => starts.filter(([key]) => key === wanted).map(([, at]) => at);
    expect(starts.map(([, at]) => at)).toEqual([0, 0, 4_000, 10_000, 10_000, 14_000]);
    for (const key of ['a', 'b']) {
      const [first, second, third] = of(key) as [number, number, number];
      expect(Math.min(second - first, third - second)).toBeGreaterThanOrEqual(4_000);
    }
  });

  it('hold for the rate of three processes whose host clocks are minutes apart', async () => {
    const database = await backend.newDatabase();
    const wf = workflow('wf', async () => {});
    const q = queue('q', { rateLimit: { max: 5, per: 200 } });
    // On SQLite the host clock is also the clock of the database, so it stays correct.
    if (backend.name === 'postgres') swingHostClock();
    const fleet = await launchFleet(backend, 3, { database, clock: 'real', workflows: [wf], queues: [q] });
    const [first] = fleet as [TestApp];
    const handles = await wf.with({ queue: q, app: first.app }).startAll(labels(30).map(() => []));
    await Promise.all(handles.map((handle) => handle.result()));
    const rows = await tamper(database, 'select started_at_epoch_ms as at from workflow_status order by 1');
    const starts = rows.map(({ at }) => Number(at));
    expect(starts).toHaveLength(30);
    for (const [i, at] of starts.slice(5).entries()) expect(at - (starts[i] as number)).toBeGreaterThanOrEqual(200);
    // No process waited for a slow clock to catch up.
    expect((starts.at(-1) as number) - (starts[0] as number)).toBeLessThan(20_000);
    for (const { statements } of fleet) expect(statements).toContain('queues.usage');
  });

  /** Makes `Date.now()` of this host wrong by up to five minutes, in either direction. */
  function swingHostClock(): void {
    const real = Date.now;
    let call = 0;
    vi.spyOn(Date, 'now').mockImplementation(() => real() + (((call++ * 7) % 11) - 5) * 60_000);
  }
});
