import { afterEach, expect, it, vi } from 'vitest';
import { schedule, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { gate, tamper } from '../support/faults.js';

const day = 86_400_000;

/** Schedules follow the clock of the database, whatever the host clock says. In tests they follow a virtual clock. */
describeBackends('schedules and clocks', (backend) => {
  /** Shifts the wall clock of this process. Its timers and its monotonic clock stay unchanged. */
  const setWallClock = (skew: number): void => {
    vi.restoreAllMocks();
    const { now } = Date;
    vi.spyOn(Date, 'now').mockImplementation(() => now() + skew);
  };
  afterEach(() => void vi.restoreAllMocks());

  /** Returns a workflow, and a promise of the tick times of its first runs. */
  const recorder = (count: number) => {
    const times: number[] = [];
    const enough = gate<number[]>();
    const wf = workflow('wf', async (at: Date) => {
      if (times.push(at.getTime()) === count) enough.open(times);
    });
    return { wf, times: enough.promise };
  };
  const seconds = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i * 1000);

  // On SQLite the host clock is the clock of the database.
  it.runIf(backend.name === 'postgres').each([-day, day])(
    'follow the time of the server on a host whose clock is off by %i ms',
    async (skew) => {
      const database = await backend.newDatabase();
      setWallClock(skew);
      const { wf, times } = recorder(2);
      const t = await backend.testApp({
        database,
        workflows: [wf],
        schedules: [schedule('s', '* * * * * *', wf)],
        clock: 'real',
      });
      const [first = 0, second] = await times;
      const [row] = await tamper(database, 'select extract(epoch from clock_timestamp()) * 1000 as now');
      expect(Math.abs(Number(row?.now) - first)).toBeLessThan(10_000);
      expect(second).toBe(first + 1000);
      await t.app.shutdown();
    },
  );

  it('stay on time within 100 ms when the host clock jumps a day forward and then two days back', async () => {
    const { wf, times } = recorder(4);
    const t = await backend.testApp({ workflows: [wf], schedules: [schedule('s', '* * * * * *', wf)], clock: 'real' });
    setWallClock(day);
    const turnBack = setTimeout(() => setWallClock(-day), 1500);
    const [first = 0, ...more] = await times;
    clearTimeout(turnBack);
    expect(more).toEqual(seconds(first + 1000, 3));
    const runs = await t.app.workflows.list({ limit: 4 });
    const delays = runs.map(({ input = [], startedAt = 0 }) => startedAt - Number(input[0]));
    // Only the best of four delays counts, because the test machine may be busy.
    expect(Math.min(...delays)).toBeLessThan(100);
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
    await t.app.shutdown();
  });

  it('stop a virtual clock at each tick while it advances', async () => {
    const at: number[] = [];
    const wf = workflow('wf', async () => void at.push(t.clock.now()));
    const t = await backend.testApp({ workflows: [wf], schedules: [schedule('s', '*/10 * * * * *', wf)] });
    const start = t.clock.now();
    await t.clock.advance('30s');
    expect(at).toEqual([start + 10_000, start + 20_000, start + 30_000]);
  });

  it('do not stop a virtual clock that runs until something else has happened', async () => {
    let ticks = 0;
    const wf = workflow('wf', async () => void ticks++);
    const sleeper = workflow('sleeper', () => sleep('30 days'));
    const t = await backend.testApp({ workflows: [wf, sleeper], schedules: [schedule('s', '* * * * * *', wf)] });
    const handle = await sleeper.start();
    const start = t.clock.now();
    await t.clock.runUntil(handle.result());
    expect(t.clock.now() - start).toBe(30 * day);
    await t.clock.advance(0);
    // The ticks of the last ten seconds, both ends included.
    expect(ticks).toBe(11);
  });

  it('let a virtual clock jump to their next tick when it runs until that tick', async () => {
    const ticked = gate<Date>();
    const wf = workflow('wf', async (at: Date) => ticked.open(at));
    const t = await backend.testApp({ workflows: [wf], schedules: [schedule('s', '0 0 29 2 *', wf)] });
    expect(await t.clock.runUntil(ticked.promise)).toEqual(new Date('2032-02-29T00:00:00Z'));
  });

  it('cost an idle process one statement per five seconds, whatever their number', async () => {
    const wf = workflow('wf', async () => {});
    const schedules = Array.from({ length: 20 }, (_, i) => schedule(`s${i}`, '0 0 1 1 *', wf));
    const t = await backend.testApp({ workflows: [wf], schedules });
    await t.clock.advance(0);
    const before = t.statements.length;
    for (let second = 0; second < 100; second++) await t.clock.advance('1s');
    const made = t.statements.slice(before).filter((name) => name.startsWith('schedules.'));
    expect(new Set(made)).toEqual(new Set(['schedules.list']));
    expect(made.length).toBeGreaterThanOrEqual(16);
    expect(made.length).toBeLessThanOrEqual(22);
  });
});
