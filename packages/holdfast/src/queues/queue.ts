import { parseDuration } from '../model/duration.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import {
  type ConflictPolicy,
  checkQueueName,
  type LimitSettings,
  type Queue,
  type QueueLimits,
  type QueueOptions,
  type QueueSettings,
  type RateLimit,
  type WhileWaiting,
} from '../model/queues.js';

const waitingPolicies = ['hold', 'release'] as const satisfies readonly WhileWaiting[];

const conflictPolicies = ['update-if-latest-version', 'always', 'never'] as const satisfies readonly ConflictPolicy[];

const limitNames = ['concurrency', 'workerConcurrency', 'rateLimit'];
const optionNames = [...limitNames, 'partition', 'priority', 'whileWaiting', 'onConflict'];
/** The database stores limits as 32-bit integers. */
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
