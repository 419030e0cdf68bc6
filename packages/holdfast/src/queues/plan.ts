import type { LimitSettings } from '../model/queues.js';
import type { LimitUsage } from '../storage/contract/queues.js';
import type { Portion } from '../storage/contract/storage.js';

/** Decides how much work may start now: the arithmetic of limits and of partitions, without a database. */

/** Returns how many more workflows a queue or partition may start under its fleet-wide limits. */
export function freeInFleet(limits: LimitSettings, usage: LimitUsage): number {
  const { concurrency, rateLimit } = limits;
  return Math.min(
    concurrency === null ? Number.POSITIVE_INFINITY : concurrency - usage.running,
    rateLimit === null ? Number.POSITIVE_INFINITY : rateLimit.max - usage.recentStarts,
  );
}

/** Returns how many more workflows this process may run at once. */
export function freeHere(limits: LimitSettings, running: number): number {
  return limits.workerConcurrency === null ? Number.POSITIVE_INFINITY : limits.workerConcurrency - running;
}

/** Returns when an exhausted rate limit allows the next start; undefined if the rate limit is not exhausted. */
export function nextStart(limits: LimitSettings, usage: LimitUsage): number | undefined {
  const { rateLimit } = limits;
  if (rateLimit === null || usage.recentStarts < rateLimit.max || usage.nextStartAt === null) return undefined;
  return usage.nextStartAt + rateLimit.perMs;
}

/** Returns true if a limit spans processes. Without such a limit, a process claims work regardless of the others. */
export function spansFleet({ concurrency, rateLimit }: LimitSettings): boolean {
  return concurrency !== null || rateLimit !== null;
}

/** Returns true if there is any limit, for the fleet or for each process. */
export function isLimited(limits: LimitSettings): boolean {
  return spansFleet(limits) || limits.workerConcurrency !== null;
}

/** How many slots a partition can use. */
export interface Share {
  readonly partition: string;
  /** The maximum number of slots; zero or less if the partition can start nothing now. */
  readonly most: number;
}

/** Distributes slots in rounds: in the given order, each partition gets one slot before any partition gets another. */
export function shareOut(
  slots: number,
  shares: readonly Share[],
): { readonly portions: readonly Portion[]; readonly last: string | undefined } {
  const given = new Map<string, number>();
  let open = shares.filter((share) => share.most > 0);
  let last: string | undefined;
  let remaining = slots;
  while (remaining > 0 && open.length > 0) {
    for (const { partition } of open) {
      if (remaining === 0) break;
      given.set(partition, (given.get(partition) ?? 0) + 1);
      last = partition;
      remaining--;
    }
    open = open.filter(({ partition, most }) => (given.get(partition) ?? 0) < most);
  }
  return { portions: [...given].map(([partition, n]) => ({ partition, n })), last };
}
