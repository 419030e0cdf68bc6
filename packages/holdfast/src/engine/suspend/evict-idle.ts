import type { Clock } from '../../model/clock.js';
import type { Logger } from '../../model/logger.js';
import type { Execution } from '../execution/execution.js';
import { Loop } from '../loop.js';
import type { QueueCache } from '../queue/queue-cache.js';

/** How often executions are looked through for those that only wait. */
const lookMs = 1_000;

/** How often at most, when there are many. */
const crowdedLookMs = 50;

/** More than this many are not to wait in memory, however short the time. */
export const maxWaitingInMemory = 1_000;

/** A wait that ends sooner than this is not worth a replay. */
const shortestRestMs = 5_000;

/** Even in a crowd: its code may be awaiting something beside the wait, and is about to go on. */
const minIdleMs = 200;

/** Reading back so many steps costs as much again: with as many more, it is to have waited for that much longer. */
const stepsPerRead = 100;

export const defaultSuspendAfterMs = 60_000;

interface EvictionHost {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly queueCache: Pick<QueueCache, 'releasesSlots'>;
  readonly inMemory: ReadonlyMap<string, Execution>;
  suspend(execution: Execution): boolean;
  onCrowded: (() => void) | undefined;
}

/**
 * Lets go of workflows that have only waited for a while (`suspendAfter`), or of those that have waited longest
 * when there are many, so that a hundred thousand sleepers fit into a small process. They come back by replay (suspended.ts).
 */
export function evictIdle(host: EvictionHost, suspendAfterMs: number): Loop {
  const { clock, logger, inMemory, queueCache } = host;
  const idle = new WeakMap<Execution, Idle>();
  const runOnce = async (): Promise<void> => {
    const now = clock.now();
    for (const execution of inMemory.values()) {
      const until = execution.idleUntil();
      if (until === undefined || until - now < shortestRestMs || execution.staysInMemory) continue;
      const { activity } = execution;
      const seen = idle.get(execution);
      if (seen?.activity !== activity) idle.set(execution, { activity, since: now });
      const idleMs = seen?.activity === activity ? now - seen.since : 0;
      const reads = 1 + execution.stepCount / stepsPerRead;
      // Those that came back last are last in the order of the map.
      const isCrowded = inMemory.size > maxWaitingInMemory && reads < 10 && idleMs >= minIdleMs;
      // What was taken over, or came back for nothing, has waited since its last result. It is not to keep a slot from
      // others that it had given back: when a process dies, all that rested there need one for a moment.
      const isBack = execution.claim.recorded !== undefined && queueCache.releasesSlots(execution.claim.queueName);
      const waitedMs = isBack && idleMs >= minIdleMs ? now - execution.currentTime : idleMs;
      if (isCrowded || waitedMs >= suspendAfterMs * reads) host.suspend(execution);
    }
  };
  const loop = new Loop({ name: 'The release of idle workflows', everyMs: lookMs, clock, logger, runOnce });
  let isWoken = false;
  host.onCrowded = () => {
    if (isWoken) return;
    isWoken = true;
    setTimeout(() => {
      isWoken = false;
      loop.wake();
    }, crowdedLookMs).unref();
  };
  return loop;
}

interface Idle {
  readonly activity: number;
  readonly since: number;
}
