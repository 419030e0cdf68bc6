import type { Clock } from '../../model/clock.js';
import type { Logger } from '../../model/logger.js';
import type { Execution } from '../execution/execution.js';
import { Loop } from '../loop.js';
import type { QueueDirectory } from '../queue/queue-cache.js';

/** How often executions are looked through for those that only wait. */
const lookMs = 1_000;

/** How often at most, when there are many. */
const crowdedLookMs = 50;

/** More than this many are not to wait in memory, however short the time. */
export const mostWaitingInMemory = 1_000;

/** A wait that ends sooner than this is not worth a replay. */
const shortestRestMs = 5_000;

/** Even in a crowd: its code may be awaiting something beside the wait, and is about to go on. */
const leastIdleMs = 200;

/** Reading back so many steps costs as much again: with as many more, it is to have waited for that much longer. */
const stepsPerRead = 100;

export const defaultReleaseAfterMs = 60_000;

interface Host {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly directory: Pick<QueueDirectory, 'releasesSlots'>;
  readonly inMemory: ReadonlyMap<string, Execution>;
  rest(execution: Execution): boolean;
  onCrowded: (() => void) | undefined;
}

/**
 * Lets go of workflows that have only waited for a while (`releaseAfter`), or of those that have waited longest
 * when there are many, so that a hundred thousand sleepers fit into a small process. They come back by replay (suspended.ts).
 */
export function idleRelease(host: Host, releaseAfterMs: number): Loop {
  const { clock, logger, inMemory, directory } = host;
  const idle = new WeakMap<Execution, Idle>();
  const runOnce = async (): Promise<void> => {
    const now = clock.now();
    for (const execution of inMemory.values()) {
      const until = execution.idleUntil();
      if (until === undefined || until - now < shortestRestMs || execution.isRestless) continue;
      const { activity } = execution;
      const seen = idle.get(execution);
      if (seen?.activity !== activity) idle.set(execution, { activity, since: now });
      const idleMs = seen?.activity === activity ? now - seen.since : 0;
      const reads = 1 + execution.stepCount / stepsPerRead;
      // Those that came back last are last in the order of the map.
      const isCrowded = inMemory.size > mostWaitingInMemory && reads < 10 && idleMs >= leastIdleMs;
      // What was taken over, or came back for nothing, has waited since its last result. It is not to keep a slot from
      // others that it had given back: when a process dies, all that rested there need one for a moment.
      const isBack = execution.facts.recorded !== undefined && directory.releasesSlots(execution.facts.queueName);
      const waitedMs = isBack && idleMs >= leastIdleMs ? now - execution.currentTime : idleMs;
      if (isCrowded || waitedMs >= releaseAfterMs * reads) host.rest(execution);
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
