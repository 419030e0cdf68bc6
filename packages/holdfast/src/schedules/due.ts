import type { Cron } from '../model/cron.js';
import type { CatchUp } from './schedule.js';

/**
 * Decides which ticks run now: the arithmetic of catching up, without a database.
 *
 * A tick runs if a process notices it within this time, so a restart or a pause of the process loses no tick. A tick
 * that is noticed later is missed, and the `catchUp` option of the schedule decides whether it runs.
 */
const lateMs = 10_000;

export interface Due {
  /** Oldest first. */
  readonly ticks: readonly number[];
  /** True if `catchUpLimit` left out some of the missed ticks. */
  readonly dropped: boolean;
}

/** Returns the ticks in (after, now] that run now. */
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
