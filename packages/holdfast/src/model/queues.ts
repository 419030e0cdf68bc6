import { type Duration, parseDuration } from './duration.js';
import { HoldfastError } from './errors.js';
import { checkName } from './ids.js';
import { checkKnownOptions, invalidOption } from './options.js';

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
   * What happens to the slot of a suspended workflow (see `suspendAfter` of `launch`). `hold` (the default): the
   * workflow keeps its slot. `release`: other workflows may use the slot, and the workflow waits on the queue before
   * it continues.
   */
  readonly whileWaiting?: WhileWaiting;
  /** What to do if the queue is already stored with other settings (default `update-if-latest-version`). */
  readonly onConflict?: ConflictPolicy;
}

/**
 * - `update-if-latest-version`: these settings are stored if this process runs the latest version of the app. An old
 *   process that restarts during a deploy therefore does not restore the old settings.
 * - `always`: these settings are stored. `never`: the stored settings stay.
 */
export type ConflictPolicy = (typeof conflictPolicies)[number];

export type WhileWaiting = (typeof waitingPolicies)[number];

const waitingPolicies = ['hold', 'release'] as const;

const conflictPolicies = ['update-if-latest-version', 'always', 'never'] as const;

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

const limitNames = ['concurrency', 'workerConcurrency', 'rateLimit'];
const optionNames = [...limitNames, 'partition', 'priority', 'whileWaiting', 'onConflict'];
const largestInt = 2 ** 31 - 1;

/** Defines a queue. Workflows that are started on a queue wait there until its limits let them run, in any process. */
export function queue(name: string, options: QueueOptions = {}): Queue {
  checkQueueName(name);
  const what = `Queue "${name}"`;
  checkKnownOptions(what, options, optionNames);
  const { onConflict = 'update-if-latest-version' } = options;
  if (!conflictPolicies.includes(onConflict)) {
    throw invalidOption(what, 'onConflict', onConflict, `one of ${conflictPolicies.join(', ')}`);
  }
  return Object.freeze({ name, settings: checkSettings(what, options), onConflict });
}

/** Returns true if the value was returned by `queue()`, of this copy of the package or of another copy. */
export function isQueue(value: unknown): value is Queue {
  return typeof value === 'object' && value !== null && 'settings' in value && 'onConflict' in value && 'name' in value;
}

/** Returns checked settings. A setting that `options` leaves out is taken from `base`, if given. */
export function checkSettings(what: string, options: QueueOptions, base?: QueueSettings): QueueSettings {
  const { partition, priority = base?.priority ?? true, whileWaiting = base?.whileWaiting ?? 'hold' } = options;
  if (typeof priority !== 'boolean') {
    throw invalidOption(what, 'priority', priority, 'true or false; the priority of one workflow is a start option');
  }
  if (!waitingPolicies.includes(whileWaiting)) {
    throw invalidOption(what, 'whileWaiting', whileWaiting, `one of ${waitingPolicies.join(', ')}`);
  }
  const partitionGiven = partition !== undefined && partition !== null;
  if (partitionGiven) checkKnownOptions(`${what}, partition`, partition, limitNames);
  return {
    limits: checkLimits(what, options, base?.limits),
    partition: partitionGiven
      ? checkLimits(`${what}, partition`, partition, base?.partition ?? undefined)
      : partition === null
        ? null
        : (base?.partition ?? null),
    priority,
    whileWaiting,
  };
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

function checkLimits(what: string, limits: Nullable<QueueLimits>, base?: LimitSettings): LimitSettings {
  const { concurrency, workerConcurrency, rateLimit } = limits;
  return {
    concurrency: limit(what, 'concurrency', concurrency, base?.concurrency),
    workerConcurrency: limit(what, 'workerConcurrency', workerConcurrency, base?.workerConcurrency),
    rateLimit: rateLimit === undefined ? (base?.rateLimit ?? null) : checkRateLimit(what, rateLimit),
  };
}

type Nullable<T> = { readonly [K in keyof T]: T[K] | null };

/** Returns a checked limit: a count from 1 up. `null` removes the limit; `undefined` keeps the limit of `base`. */
function limit(what: string, option: string, value: number | null | undefined, base?: number | null): number | null {
  if (value === undefined) return base ?? null;
  if (value === null) return null;
  if (Number.isInteger(value) && value >= 1 && value <= largestInt) return value;
  throw invalidOption(what, option, value, 'a whole number from 1 up (to stop a queue, pause it)');
}

function checkRateLimit(what: string, rateLimit: RateLimit | null): LimitSettings['rateLimit'] {
  if (rateLimit === null) return null;
  checkKnownOptions(`${what}, rateLimit`, rateLimit, ['max', 'per']);
  const { max, per } = rateLimit;
  if (!(Number.isInteger(max) && max >= 1 && max <= largestInt)) {
    throw invalidOption(what, 'rateLimit.max', max, 'a whole number from 1 up');
  }
  const perMs = parseDuration(per, `${what}: "rateLimit.per"`);
  if (perMs === 0) throw invalidOption(what, 'rateLimit.per', per, 'longer than 0');
  return { max, perMs };
}

const longestQueueName = 255;

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
  if (typeof priority === 'number' && Number.isInteger(priority) && priority >= 0 && priority <= largestInt) {
    return priority;
  }
  throw invalidOption(what, 'priority', priority, `a whole number from 0 (first) to ${largestInt}`);
}
