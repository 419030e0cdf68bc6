import { describe, expect, it } from 'vitest';
import { parseCron } from '../model/cron.js';
import { dueTicks } from './due.js';
import type { CatchUp } from './schedule.js';

const minutely = parseCron('* * * * *');
const at = (time: string): number => Date.parse(`2026-01-01T${time}Z`);

function due(catchUp: CatchUp, after: string, now: string, catchUpLimit = 100, cron = minutely) {
  const { ticks, dropped } = dueTicks(cron, { catchUp, catchUpLimit }, at(after), at(now));
  return { ticks: ticks.map((tick) => new Date(tick).toISOString().slice(11, 19)), dropped };
}

describe('due ticks', () => {
  it.each(['skip', 'one', 'all'] as const)('include the last ten seconds, whatever the policy (%s)', (catchUp) => {
    expect(due(catchUp, '00:00:00', '00:00:59.999').ticks).toEqual([]);
    expect(due(catchUp, '00:00:00', '00:01:00').ticks).toEqual(['00:01:00']);
    expect(due(catchUp, '00:00:00', '00:01:10').ticks).toEqual(['00:01:00']);
    expect(due(catchUp, '00:01:00', '00:01:10').ticks).toEqual([]);
    const everySecond = due(catchUp, '00:00:50', '00:01:00', 100, parseCron('* * * * * *')).ticks;
    expect(everySecond).toHaveLength(10);
  });

  it('include no missed ticks with "skip"', () => {
    expect(due('skip', '00:00:00', '00:01:10.001').ticks).toEqual([]);
    expect(due('skip', '00:00:00', '03:00:05')).toEqual({ ticks: ['03:00:00'], dropped: false });
  });

  it('include the latest missed tick with "one"', () => {
    expect(due('one', '00:00:00', '00:01:10.001').ticks).toEqual(['00:01:00']);
    expect(due('one', '00:00:00', '03:00:30')).toEqual({ ticks: ['03:00:00'], dropped: false });
    expect(due('one', '00:00:00', '03:00:05').ticks).toEqual(['02:59:00', '03:00:00']);
    expect(due('one', '02:59:00', '03:00:05').ticks).toEqual(['03:00:00']);
  });

  it('include all missed ticks with "all", oldest first, or the latest of them up to the limit', () => {
    expect(due('all', '00:00:00', '00:03:30')).toEqual({ ticks: ['00:01:00', '00:02:00', '00:03:00'], dropped: false });
    expect(due('all', '00:00:00', '00:03:30', 3).dropped).toBe(false);
    expect(due('all', '00:00:00', '00:03:30', 2)).toEqual({ ticks: ['00:02:00', '00:03:00'], dropped: true });
    expect(due('all', '00:00:00', '03:00:05', 1)).toEqual({ ticks: ['02:59:00', '03:00:00'], dropped: true });
  });

  it('are empty when the clock stands still or goes back', () => {
    for (const catchUp of ['skip', 'one', 'all'] as const) {
      expect(due(catchUp, '00:01:00', '00:01:00')).toEqual({ ticks: [], dropped: false });
      expect(due(catchUp, '12:00:00', '00:01:00')).toEqual({ ticks: [], dropped: false });
    }
  });

  it('are found quickly after ten years of one tick per second', () => {
    const policy = { catchUp: 'all', catchUpLimit: 100 } as const;
    const now = Date.UTC(2036, 0, 1);
    const { ticks } = dueTicks(parseCron('* * * * * *'), policy, Date.UTC(2026, 0, 1), now);
    expect(ticks).toHaveLength(111);
    expect(ticks.at(-1)).toBe(now);
    expect(ticks[0]).toBe(now - 110_000);
  });
});
