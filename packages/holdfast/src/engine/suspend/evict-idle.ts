import type { Clock } from '../../model/clock.js';
import type { Emitter } from '../../model/emitter.js';
import type { Logger } from '../../model/logger.js';
import type { EngineEvents } from '../events.js';
import type { Execution } from '../execution/execution.js';
import { Loop } from '../loop.js';
import type { QueueCache } from '../queue/queue-cache.js';

/** How often the executions in memory are checked for those that only wait. */
const intervalMs = 1_000;

/** Shortest delay between two checks while too many executions are in memory. */
const crowdedIntervalMs = 50;

/** With more executions in memory than this, waiting executions are suspended even before `suspendAfter`. */
export const maxWaitingInMemory = 1_000;

/** An execution whose wait ends sooner than this is not suspended, because the replay would cost more. */
const minWaitMs = 5_000;

/**
 * Minimum idle time of every suspended execution. Its code may await something else than the wait, and may be about
 * to continue.
 */
const minIdleMs = 200;

/**
 * Reading this many steps costs as much as reading the workflow itself. An execution with more steps must have waited
 * longer before it is suspended.
 */
const stepsPerRead = 100;

export const defaultSuspendAfterMs = 60_000;

interface EvictionHost {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly queueCache: Pick<QueueCache, 'releasesSlots'>;
  readonly events: Emitter<EngineEvents>;
  readonly executions: {
    readonly inMemory: ReadonlyMap<string, Execution>;
    suspend(execution: Execution): boolean;
  };
}

/**
 * Suspends workflows that have only waited for some time (`suspendAfter`). While too many executions are in memory,
 * workflows that wait are suspended earlier, so that a hundred thousand sleeping workflows fit into a small process.
 * Suspended workflows continue by replay (suspended.ts).
 */
export function evictIdle(host: EvictionHost, suspendAfterMs: number): Loop {
  const { clock, logger, executions, queueCache } = host;
  const { inMemory } = executions;
  const seenIdle = new WeakMap<Execution, Idle>();
  const runOnce = async (): Promise<void> => {
    const now = clock.now();
    for (const execution of inMemory.values()) {
      const until = execution.idleUntil();
      if (until === undefined || until - now < minWaitMs || execution.staysInMemory) continue;
      const { activity } = execution;
      const before = seenIdle.get(execution);
      if (before?.activity !== activity) seenIdle.set(execution, { activity, since: now });
      const idleMs = before?.activity === activity ? now - before.since : 0;
      const replayCost = 1 + execution.stepCount / stepsPerRead;
      // The map is in insertion order, so workflows that continued recently come last.
      const isCrowded = inMemory.size > maxWaitingInMemory && replayCost < 10 && idleMs >= minIdleMs;
      // A replayed workflow was taken over, or continued although its wait had not ended. It has waited since its last
      // result, so that time counts. It must soon free the slot that it had freed before: after the death of a
      // process, all workflows that were suspended there need a slot for a moment.
      const isReplayed = execution.claim.recorded !== undefined && queueCache.releasesSlots(execution.claim.queueName);
      const waitedMs = isReplayed && idleMs >= minIdleMs ? now - execution.currentTime : idleMs;
      if (isCrowded || waitedMs >= suspendAfterMs * replayCost) executions.suspend(execution);
    }
  };
  const loop = new Loop({ name: 'Suspending idle workflows', everyMs: intervalMs, clock, logger, runOnce });
  let isWoken = false;
  host.events.on('crowded', () => {
    if (isWoken) return;
    isWoken = true;
    setTimeout(() => {
      isWoken = false;
      loop.wake();
    }, crowdedIntervalMs).unref();
  });
  return loop;
}

interface Idle {
  readonly activity: number;
  readonly since: number;
}
