import { type Duration, parseDuration } from './duration.js';
import { checkCount, checkKnownOptions, invalidOption, misplacedOption } from './options.js';

/** What is to become of a workflow whose process died. */

/** Settings that a workflow can have of its own, as `workflow(name, fn, { recovery })`. */
export interface WorkflowRecoveryOptions {
  /** `false`: work of a dead process is not resumed automatically (default true). `onNotResumed` says what happens to it. */
  readonly autoResume?: boolean;
  /**
   * With `autoResume: false`: the workflow is listed by `app.recovery.incomplete()` and waits for an operator (`wait`, the
   * default), or it is cancelled with a reason (`cancel`).
   */
  readonly onNotResumed?: OnNotResumed;
  /** A run that started longer ago is cancelled instead of resumed. 0, the default: no run is too old. */
  readonly maxResumeAge?: Duration;
  /** How often a workflow may be tried again after its first start (default 100). */
  readonly maxAttempts?: number;
  /** What becomes of it then: MAX_RECOVERY_ATTEMPTS_EXCEEDED (`dead-letter`, the default), or CANCELLED. */
  readonly onExceeded?: OnExceeded;
}

/** Settings of a process, as `launch({ recovery })`. */
export interface RecoveryOptions extends WorkflowRecoveryOptions {
  /** `false`: this process takes over nothing by itself (default true). Others still take over its work. */
  readonly enabled?: boolean;
  /** How long this process may be silent until others take it for dead: at least 3 s, default 30 s. */
  readonly staleTimeout?: Duration;
}

const onExceededValues = ['dead-letter', 'cancel'] as const;
export type OnExceeded = (typeof onExceededValues)[number];

const onNotResumedValues = ['wait', 'cancel'] as const;
export type OnNotResumed = (typeof onNotResumedValues)[number];

/** The settings that one workflow has of its own; what it leaves open is for the app to say. */
export interface WorkflowRecovery {
  /** `false`: interrupted runs are set aside as STALLED. Only a workflow itself can say so. */
  readonly resumable: boolean;
  readonly autoResume: boolean | undefined;
  readonly onNotResumed: OnNotResumed | undefined;
  /** Null: no run of this workflow is too old, whatever the limit of the app. */
  readonly maxResumeAgeMs: number | null | undefined;
  readonly maxAttempts: number | undefined;
  readonly onExceeded: OnExceeded | undefined;
}

/** What holds for one workflow in one app. */
export interface RecoveryPolicy {
  readonly resumable: boolean;
  readonly autoResume: boolean;
  readonly onNotResumed: OnNotResumed;
  readonly maxResumeAgeMs: number | null;
  readonly maxAttempts: number;
  readonly onExceeded: OnExceeded;
}

export interface RecoverySettings extends Omit<RecoveryPolicy, 'resumable'> {
  readonly enabled: boolean;
  readonly staleTimeoutMs: number;
}

const workflowOptionNames = ['autoResume', 'onNotResumed', 'maxResumeAge', 'maxAttempts', 'onExceeded'];
const optionNames = ['enabled', 'staleTimeout', ...workflowOptionNames];
const shortestStaleMs = 3_000;

export const defaultRecovery: RecoverySettings = {
  enabled: true,
  staleTimeoutMs: 30_000,
  autoResume: true,
  onNotResumed: 'wait',
  maxResumeAgeMs: null,
  maxAttempts: 100,
  onExceeded: 'dead-letter',
};

/** Refuses settings of `recovery` that were given beside it, among options that have these names. */
export function checkNotBeside(what: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue;
    const meant = optionNames.find((name) => name.toLowerCase() === key.toLowerCase());
    if (meant) throw misplacedOption(what, key, `is an option of "recovery": give { recovery: { ${meant} } }`);
  }
}

/** The settings of `launch({ recovery })`, or a typed error. */
export function checkRecovery(options: RecoveryOptions = {}): RecoverySettings {
  const what = 'launch({ recovery })';
  checkKnownOptions(what, options, optionNames);
  const { enabled = defaultRecovery.enabled, staleTimeout = defaultRecovery.staleTimeoutMs } = options;
  if (typeof enabled !== 'boolean') throw invalidOption(what, 'enabled', enabled, 'true or false');
  const staleTimeoutMs = parseDuration(staleTimeout, `The staleTimeout of ${what}`);
  if (staleTimeoutMs < shortestStaleMs) {
    const why = 'at least 3 seconds: one slow answer of the database would pass for a death';
    throw invalidOption(what, 'staleTimeout', staleTimeout, why);
  }
  const own = checkCommon(what, options);
  return {
    enabled,
    staleTimeoutMs,
    autoResume: own.autoResume ?? defaultRecovery.autoResume,
    onNotResumed: own.onNotResumed ?? defaultRecovery.onNotResumed,
    maxResumeAgeMs: own.maxResumeAgeMs ?? defaultRecovery.maxResumeAgeMs,
    maxAttempts: own.maxAttempts ?? defaultRecovery.maxAttempts,
    onExceeded: own.onExceeded ?? defaultRecovery.onExceeded,
  };
}

/** What a workflow says about its own recovery, or a typed error. `maxRecoveryAttempts` is a name of `maxAttempts`. */
export function checkWorkflowRecovery(
  what: string,
  given: {
    readonly recovery?: WorkflowRecoveryOptions | undefined;
    readonly resumable?: boolean | undefined;
    readonly maxRecoveryAttempts?: number | undefined;
  },
): WorkflowRecovery {
  const { recovery = {}, resumable = true, maxRecoveryAttempts } = given;
  if (typeof resumable !== 'boolean') throw invalidOption(what, 'resumable', resumable, 'true or false');
  checkKnownOptions(`The recovery of ${what}`, recovery, workflowOptionNames);
  const own = checkCommon(`The recovery of ${what}`, recovery);
  if (maxRecoveryAttempts === undefined) return { resumable, ...own };
  if (own.maxAttempts !== undefined) {
    throw misplacedOption(what, 'maxRecoveryAttempts', 'is recovery.maxAttempts by another name: give one of the two');
  }
  return { resumable, ...own, maxAttempts: checkCount(what, 'maxRecoveryAttempts', maxRecoveryAttempts) };
}

function checkCommon(what: string, options: WorkflowRecoveryOptions): Omit<WorkflowRecovery, 'resumable'> {
  const { autoResume, onNotResumed, maxResumeAge, maxAttempts, onExceeded } = options;
  if (autoResume !== undefined && typeof autoResume !== 'boolean') {
    throw invalidOption(what, 'autoResume', autoResume, 'true or false');
  }
  checkOneOf(what, 'onExceeded', onExceeded, onExceededValues);
  checkOneOf(what, 'onNotResumed', onNotResumed, onNotResumedValues);
  return {
    autoResume,
    onNotResumed,
    maxResumeAgeMs: maxResumeAge === undefined ? undefined : ageLimit(maxResumeAge, `${what}: "maxResumeAge"`),
    maxAttempts: maxAttempts === undefined ? undefined : checkCount(what, 'maxAttempts', maxAttempts),
    onExceeded,
  };
}

function checkOneOf(what: string, option: string, value: string | undefined, allowed: readonly string[]): void {
  if (value === undefined || allowed.includes(value)) return;
  throw invalidOption(what, option, value, allowed.map((each) => `"${each}"`).join(' or '));
}

/** The limit in milliseconds; 0 means that there is no limit. */
function ageLimit(age: Duration, what: string): number | null {
  return parseDuration(age, what) || null;
}

/** A workflow's own settings, and the app's where it has none. */
export function policyFor(own: WorkflowRecovery, app: RecoverySettings): RecoveryPolicy {
  return {
    resumable: own.resumable,
    autoResume: own.autoResume ?? app.autoResume,
    onNotResumed: own.onNotResumed ?? app.onNotResumed,
    // Not `??`: null is the workflow's own word, that it has no limit.
    maxResumeAgeMs: own.maxResumeAgeMs === undefined ? app.maxResumeAgeMs : own.maxResumeAgeMs,
    maxAttempts: own.maxAttempts ?? app.maxAttempts,
    onExceeded: own.onExceeded ?? app.onExceeded,
  };
}
