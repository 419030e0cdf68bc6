import type { Duration } from './duration.js';
import { HoldfastError } from './errors.js';
import { checkName } from './ids.js';
import { invalidOption } from './options.js';

/**
 * The queue for work that is on no queue of the user: resumed workflows, and workflows handed over at shutdown. DBOS
 * uses the same name.
 */
export const internalQueue = '_dbos_internal_queue';

/** The partition key of workflows that were already on a queue when the queue got partitions. */
export const noPartition = '(none)';

/** At most `max` starts within any period of length `per`. */
export interface RateLimit {
  readonly max: number;
  readonly per: Duration;
}

/** Limits for a whole queue, or for each of its partitions. */
export interface QueueLimits {
  /** The maximum number of workflows that run at the same time, in all processes together. */
  readonly concurrency?: number;
  /** The maximum number of workflows that run at the same time in one process. */
  readonly workerConcurrency?: number;
  /** The maximum number of workflows that start per period, in all processes together. */
  readonly rateLimit?: RateLimit;
}

export interface QueueOptions extends QueueLimits {
  /**
   * Divides the queue by a key that each workflow is enqueued with, such as a tenant. The partitions take turns. These
   * limits apply to each partition, in addition to the limits of the whole queue. With `{}` the partitions only take
   * turns.
   */
  readonly partition?: QueueLimits;
  /** `false`: strictly first come, first served. Enqueueing with a priority is then an error (default true). */
  readonly priority?: boolean;
  /**
   * Decides about the slot of a suspended workflow (see `suspendAfter` of `launch`). `hold` (the default): the workflow
   * keeps its slot. `release`: other workflows may use the slot, and the workflow waits on the queue before it
   * continues.
   */
  readonly whileWaiting?: WhileWaiting;
  /** The policy for a queue that is already stored with other settings (default `update-if-latest-version`). */
  readonly onConflict?: ConflictPolicy;
}

/**
 * - `update-if-latest-version`: these settings are stored if this process runs the latest version of the app. An old
 *   process that restarts during a deploy therefore does not restore the old settings.
 * - `always`: these settings are stored. `never`: the stored settings stay.
 */
export type ConflictPolicy = 'update-if-latest-version' | 'always' | 'never';

export type WhileWaiting = 'hold' | 'release';

/** The definition of a queue. It is stored when it is given to `launch` or `app.queues.register`. */
export interface Queue {
  readonly name: string;
  readonly settings: QueueSettings;
  readonly onConflict: ConflictPolicy;
}

/** The checked settings of a queue. A limit that is not set is null. */
export interface QueueSettings {
  readonly limits: LimitSettings;
  readonly partition: LimitSettings | null;
  readonly priority: boolean;
  readonly whileWaiting: WhileWaiting;
}

export interface LimitSettings {
  readonly concurrency: number | null;
  readonly workerConcurrency: number | null;
  readonly rateLimit: { readonly max: number; readonly perMs: number } | null;
}

/** Returns true if the value was returned by `queue()`, of this copy of the package or of another copy. */
export function isQueue(value: unknown): value is Queue {
  return typeof value === 'object' && value !== null && 'settings' in value && 'onConflict' in value && 'name' in value;
}

/**
 * Returns true if a workflow of the queue releases its slot when it is suspended. Only queues with concurrency limits
 * do.
 */
export function releasesSlots({ limits, partition, whileWaiting }: QueueSettings): boolean {
  const hasSlots = (each: LimitSettings | null): boolean =>
    each !== null && (each.concurrency !== null || each.workerConcurrency !== null);
  return whileWaiting === 'release' && (hasSlots(limits) || hasSlots(partition));
}

const longestQueueName = 255;
/** The database stores priorities as 32-bit integers. */
const largestPriority = 2 ** 31 - 1;

/**
 * The rules are stricter than for other names, because queue names appear in logs, dashboards and notification
 * payloads.
 */
export function checkQueueName(name: unknown, what = 'A queue name'): string {
  const checked = checkName(what, name);
  const problem =
    checked.length > longestQueueName
      ? `is ${checked.length} characters long, but at most ${longestQueueName} are allowed`
      : // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are refused here.
        /["'`\x00-\x1f\x7f]/.test(checked)
        ? 'contains a quote or a control character'
        : checked === internalQueue
          ? 'is reserved'
          : undefined;
  if (problem === undefined) return checked;
  throw new HoldfastError('INVALID_NAME', `${what} ${problem}. Choose another one.`, { details: { name } });
}

/** Returns a checked priority. The lowest number runs first; 0, the default, runs before all others. */
export function checkPriority(what: string, priority: unknown): number {
  if (typeof priority === 'number' && Number.isInteger(priority) && priority >= 0 && priority <= largestPriority) {
    return priority;
  }
  throw invalidOption(what, 'priority', priority, `a whole number from 0 (first) to ${largestPriority}`);
}
