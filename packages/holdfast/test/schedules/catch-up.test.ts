import { expect, it } from 'vitest';
import { type CatchUp, type ScheduleOptions, schedule, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { recordingLogger, tamper } from '../support/faults.js';

describeBackends('missed ticks', (backend) => {
  /** Runs an app for two minutes, stops it for `down` and restarts it. `ran` lists the later ticks, in order. */
  async function afterDowntime(down: string, options: ScheduleOptions & { cron?: string } = {}) {
    const { cron = '* * * * *', ...rest } = options;
    const ran: string[] = [];
    const wf = workflow('wf', async (at: Date) => void ran.push(at.toISOString().slice(11, 19)));
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [wf], schedules: [schedule('s', cron, wf, rest)], logger });
    await t.clock.advance('2m');
    await t.crash();
    ran.length = 0;
    await t.clock.advance(down);
    const again = await t.restart();
    await again.clock.advance(0);
    return { t: again, ran, logger };
  }

  it('are not run by default or with skip', async () => {
    for (const options of [{}, { catchUp: 'skip' }] as const) {
      const { t, ran } = await afterDowntime('1h 30s', options);
      expect(ran).toEqual([]);
      await t.clock.advance('1m');
      expect(ran).toEqual(['01:03:00']);
    }
  });

  it.each(['skip', 'one', 'all'] as CatchUp[])('do not include ticks of the last ten seconds (%s)', async (catchUp) => {
    const { t, ran } = await afterDowntime('70s', { catchUp });
    expect(ran).toEqual(['00:03:00']);
    await t.clock.advance('49s');
    expect(ran).toEqual(['00:03:00']);
  });

  it('are run once with one: only the latest tick runs', async () => {
    const { t, ran, logger } = await afterDowntime('1h 30s', { catchUp: 'one' });
    expect(ran).toEqual(['01:02:00']);
    expect(await t.app.schedules.get('s')).toMatchObject({ lastFiredAt: Date.UTC(2030, 0, 1, 1, 2) });
    const again = await t.restart();
    await again.clock.advance('40s');
    expect(ran).toEqual(['01:02:00', '01:03:00']);
    expect(logger.matching(/missed/)).toEqual([]);
  });

  it('are all run with all, oldest first, and not again at the next restart', async () => {
    const { t, ran, logger } = await afterDowntime('5m 30s', { catchUp: 'all' });
    const expected = ['00:03:00', '00:04:00', '00:05:00', '00:06:00', '00:07:00'];
    expect(ran).toEqual(expected);
    const again = await t.restart();
    await again.clock.advance(0);
    expect(ran).toEqual(expected);
    expect(logger.matching(/missed/)).toEqual([]);
  });

  it('are limited with all: only the latest ticks run, and a warning reports the others', async () => {
    const { t, ran, logger } = await afterDowntime('1h 30s', { catchUp: 'all', catchUpLimit: 3 });
    expect(ran).toEqual(['01:00:00', '01:01:00', '01:02:00']);
    expect(logger.matching(/Schedule "s" has missed more ticks.*latest 3.*backfill/)).toHaveLength(1);
    await t.clock.advance('2m');
    expect(ran).toHaveLength(5);
  });

  it('stay within the limit after a year of one tick per second', async () => {
    const { ran } = await afterDowntime('365d', { catchUp: 'all', cron: '* * * * * *' });
    // The limit of a hundred, plus the ticks of the last ten seconds, both ends included.
    expect(ran).toHaveLength(111);
  });

  it('are run in the same way when the last tick was not recorded', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async (at: Date) => void ran.push(at.toISOString().slice(14, 16)));
    const database = await backend.newDatabase();
    const schedules = [schedule('s', '* * * * *', wf, { catchUp: 'all' })];
    const t = await backend.testApp({ database, workflows: [wf], schedules });
    await t.clock.advance('3m');
    await t.crash();
    await tamper(database, 'update workflow_schedules set last_fired_at = null');
    await t.clock.advance('2m 30s');
    const again = await t.restart();
    await again.clock.advance(0);
    expect(ran).toEqual(['01', '02', '03', '04', '05']);
  });

  it.each([
    ['skip', []],
    ['one', ['59']],
    ['all', Array.from({ length: 59 }, (_, i) => String(i + 1).padStart(2, '0'))],
  ] as [CatchUp, string[]][])('are handled alike after the host was suspended (%s)', async (catchUp, expected) => {
    const ran: string[] = [];
    const wf = workflow('wf', async (at: Date) => void ran.push(at.toISOString().slice(14, 16)));
    const sleeper = workflow('sleeper', () => sleep('59m 30s'));
    const schedules = [schedule('s', '* * * * *', wf, { catchUp })];
    const t = await backend.testApp({ workflows: [wf, sleeper], schedules });
    const handle = await sleeper.start();
    // The clock jumps to the end of the sleep, without a stop at the ticks in between.
    await t.clock.runUntil(handle.result());
    await t.clock.advance(0);
    expect(ran).toEqual(expected);
    await t.clock.advance('30s');
    expect(ran).toEqual([...expected, '00']);
  });

  it('exclude ticks from before the schedule was created, resumed, or given a new cron or time zone', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async (at: Date) => void ran.push(at.toISOString().slice(11, 16)));
    const t = await backend.testApp({ workflows: [wf] });
    await t.clock.advance('10m 30s');
    await t.app.schedules.create(schedule('s', '* * * * *', wf, { catchUp: 'all' }));
    await t.clock.advance('1m');
    await t.app.schedules.pause('s');
    await t.clock.advance('10m');
    await t.app.schedules.resume('s');
    await t.clock.advance(0);
    await t.app.schedules.update('s', { cron: '*/2 * * * *' });
    await t.clock.advance('2m');
    await t.app.schedules.update('s', { timezone: 'Asia/Kolkata' });
    await t.clock.advance('1m');
    const again = await t.restart();
    await again.clock.advance(0);
    expect(ran).toEqual(['00:11', '00:22', '00:24']);
  });
});
