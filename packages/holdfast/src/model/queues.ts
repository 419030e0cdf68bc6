import { type Duration, parseDuration } from './duration.js';
import { HoldfastError } from './errors.js';
import { checkName } from './ids.js';
import { checkKnownOptions, invalidOption } from './options.js';

/** Work that belongs to no queue of the user's waits here: resumed and handed-over workflows. DBOS's name for it. */
export const internalQueue = '_dbos_internal_queue';

/** Where workflows go that were on a queue when it got partitions. */
export const noPartition = '(none)';

/** At most `max` starts in any stretch of `per`. */
export interface RateLimit {
  readonly max: number;
  readonly per: Duration;
}

/** Limits that hold for a whole queue, or for each of its partitions. */
export interface QueueLimits {
  /** How many of its workflows run at once in the whole fleet. */
  readonly concurrency?: number;
  /** How many of its workflows run at once in one process. */
  readonly workerConcurrency?: number;
  /** How many of its workflows start per stretch of time, in the whole fleet. */
  readonly rateLimit?: RateLimit;
}

export interface QueueOptions extends QueueLimits {
  /**
   * Divides the queue by a key that each workflow is enqueued with (a tenant, say): partitions take turns, and these
   * limits hold for each of them, beside those of the whole queue. `{}` if all you want is the turns.
   */
  readonly partition?: QueueLimits;
  /** `false`: strictly first come, first served; enqueueing with a priority is then an error (default true). */
  readonly priority?: boolean;
  /**
   * What becomes of the slot of a workflow that only waits and was let go of (`suspendAfter` of `launch`). `hold` (the
   * default): it keeps it. `release`: others run meanwhile, and it waits for its turn on the queue before it goes on.
   */
  readonly whileWaiting?: WhileWaiting;
  /** What to do when the queue is stored already, with other settings (default `update-if-latest-version`). */
  readonly onConflict?: ConflictPolicy;
}

/**
 * - `update-if-latest-version`: these settings count if this process runs the app's latest version, so that an old
 *   process that restarts during a deploy does not bring the old settings back.
 * - `always`: these settings count. `never`: the stored ones do.
 */
export type ConflictPolicy = (typeof conflictPolicies)[number];

export type WhileWaiting = (typeof waitingPolicies)[number];

const waitingPolicies = ['hold', 'release'] as const;

const conflictPolicies = ['update-if-latest-version', 'always', 'never'] as const;

/** A queue, defined: nothing is stored until it is given to `launch` or `app.queues.register`. */
export interface Queue {
  readonly name: string;
  readonly settings: QueueSettings;
  readonly onConflict: ConflictPolicy;
}

/** What a queue is set to, checked, with every limit that is not there as null. */
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

/** Defines a queue: workflows that are started on it wait there until its limits let them run, on any process. */
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

/** Whether a value is what `queue()` returns, of this copy of the package or another. */
export function isQueue(value: unknown): value is Queue {
  return typeof value === 'object' && value !== null && 'settings' in value && 'onConflict' in value && 'name' in value;
}

/** Settings from options; what the options leave out is taken from `base`, if there is one. */
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

/** Whether a workflow of the queue gives its slot back when it is let go of. Without slots there is nothing to give. */
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

/** A count from 1 up; `null` takes the limit away, and leaving it out keeps what is there. */
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
  if (perMs === 0) throw invalidOption(what, 'rateLimit.per', per, 'longer than nothing');
  return { max, perMs };
}

const longestQueueName = 255;

/** Stricter than other names: it ends up in logs, dashboards and the payloads of signals, beside other names. */
export function checkQueueName(name: unknown, what = 'A queue name'): string {
  const checked = checkName(what, name);
  const problem =
    checked.length > longestQueueName
      ? `is ${checked.length} characters long, and ${longestQueueName} are allowed`
      : // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
        /["'`\x00-\x1f\x7f]/.test(checked)
        ? 'contains a quote or a control character'
        : checked === internalQueue
          ? 'is reserved'
          : undefined;
  if (problem === undefined) return checked;
  throw new HoldfastError('INVALID_NAME', `${what} ${problem}. Choose another one.`, { details: { name } });
}

/** Lowest first: 0, the default, before everything else. */
export function checkPriority(what: string, priority: unknown): number {
  if (typeof priority === 'number' && Number.isInteger(priority) && priority >= 0 && priority <= largestInt) {
    return priority;
  }
  throw invalidOption(what, 'priority', priority, `a whole number from 0 (first) to ${largestInt}`);
}
