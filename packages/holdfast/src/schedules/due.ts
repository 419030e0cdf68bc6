import type { Cron } from '../model/cron.js';
import type { CatchUp } from './schedule.js';

/**
 * Which ticks are to be run now: the arithmetic of catching up, without a database.
 *
 * A tick is run if it is noticed within this time: a restart, or a pause of the process, takes none away. Later than
 * that it was missed, and the schedule says what becomes of it.
 */
const lateMs = 10_000;

export interface Due {
  /** Oldest first. */
  readonly ticks: readonly number[];
  /** Ticks were missed that the bound leaves out. */
  readonly dropped: boolean;
}

/** Of the ticks in (after, now]. */
export function dueTicks(
  cron: Cron,
  policy: { readonly catchUp: CatchUp; readonly catchUpLimit: number },
  after: number,
  now: number,
): Due {
  if (after >= now) return { ticks: [], dropped: false };
  const lastMissed = now - lateMs - 1;
  const inTime = cron.between(Math.max(after, lastMissed), now, Number.POSITIVE_INFINITY);
  const limit = policy.catchUp === 'all' ? policy.catchUpLimit : policy.catchUp === 'one' ? 1 : 0;
  if (limit === 0 || after >= lastMissed) return { ticks: inTime, dropped: false };
  const missed = cron.latest(after, lastMissed, limit + 1);
  const ticks = [...missed.slice(-limit), ...inTime];
  return { ticks, dropped: policy.catchUp === 'all' && missed.length > limit };
}
