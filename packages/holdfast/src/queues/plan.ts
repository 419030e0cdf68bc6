import type { LimitSettings } from '../model/queues.js';
import type { LimitUsage } from '../storage/contract/queues.js';
import type { Portion } from '../storage/contract/storage.js';

/** Which work may start now: the arithmetic of limits and turns, without a database. */

/** How much more a queue or partition may start, by limits of the whole fleet. */
export function freeInFleet(limits: LimitSettings, usage: LimitUsage): number {
  const { concurrency, rateLimit } = limits;
  return Math.min(
    concurrency === null ? Number.POSITIVE_INFINITY : concurrency - usage.running,
    rateLimit === null ? Number.POSITIVE_INFINITY : rateLimit.max - usage.recentStarts,
  );
}

/** How much more this process may run at once. */
export function freeHere(limits: LimitSettings, running: number): number {
  return limits.workerConcurrency === null ? Number.POSITIVE_INFINITY : limits.workerConcurrency - running;
}

/** When a rate limit that is used up lets the next one start; undefined if it is not what holds things up. */
export function nextStart(limits: LimitSettings, usage: LimitUsage): number | undefined {
  const { rateLimit } = limits;
  if (rateLimit === null || usage.recentStarts < rateLimit.max || usage.nextStartAt === null) return undefined;
  return usage.nextStartAt + rateLimit.perMs;
}

/** Limits that processes have to agree on: without one, each can take work without asking what the others do. */
export function spansFleet({ concurrency, rateLimit }: LimitSettings): boolean {
  return concurrency !== null || rateLimit !== null;
}

export function isLimited(limits: LimitSettings): boolean {
  return spansFleet(limits) || limits.workerConcurrency !== null;
}

export interface Share {
  readonly partition: string;
  /** At most this many. */
  readonly most: number;
}

/** Shares slots out in rounds: each partition gets one, in the given order, before any gets another. */
export function shareOut(
  slots: number,
  shares: readonly Share[],
): { readonly portions: readonly Portion[]; readonly last: string | undefined } {
  const given = new Map<string, number>();
  let open = shares.filter((share) => share.most > 0);
  let last: string | undefined;
  let left = slots;
  while (left > 0 && open.length > 0) {
    for (const { partition } of open) {
      if (left === 0) break;
      given.set(partition, (given.get(partition) ?? 0) + 1);
      last = partition;
      left--;
    }
    open = open.filter(({ partition, most }) => (given.get(partition) ?? 0) < most);
  }
  return { portions: [...given].map(([partition, n]) => ({ partition, n })), last };
}
