import { type Duration, parseDuration } from './duration.js';
import { checkCount, checkKnownOptions, invalidOption, wrongOption } from './options.js';

/** Settings that decide what happens to a workflow whose process died. */

/** The recovery settings of one workflow, as `workflow(name, fn, { recovery })`. */
export interface WorkflowRecoveryOptions {
  /** `false`: work of a dead process is not resumed automatically (default true). See also `onNotResumed`. */
  readonly autoResume?: boolean;
  /**
   * With `autoResume: false`: `wait` (the default) lists the workflow in `app.recovery.incomplete()`, where it waits
   * for an operator. `cancel` cancels the workflow with a reason.
   */
  readonly onNotResumed?: OnNotResumed;
  /** A run that started longer ago than this is cancelled instead of resumed. 0, the default, means no limit. */
  readonly maxResumeAge?: Duration;
  /** How often a workflow may be recovered after its first start (default 100). */
  readonly maxAttempts?: number;
  /** The status after that: MAX_RECOVERY_ATTEMPTS_EXCEEDED (`dead-letter`, the default), or CANCELLED (`cancel`). */
  readonly onExceeded?: OnExceeded;
}

/** The recovery settings of a process, as `launch({ recovery })`. */
export interface RecoveryOptions extends WorkflowRecoveryOptions {
  /**
   * `false`: this process takes over no work (default true). Other processes still take over the work of this process.
   */
  readonly enabled?: boolean;
  /** Other processes consider this process dead if it sends no heartbeat for this long: at least 3 s, default 30 s. */
  readonly staleTimeout?: Duration;
}

const onExceededValues = ['dead-letter', 'cancel'] as const;
export type OnExceeded = (typeof onExceededValues)[number];

const onNotResumedValues = ['wait', 'cancel'] as const;
export type OnNotResumed = (typeof onNotResumedValues)[number];

/** The checked settings of one workflow. For an undefined setting, the setting of the app counts. */
export interface WorkflowRecovery {
  /** `false`: interrupted runs become STALLED. Only a workflow has this setting, not an app. */
  readonly resumable: boolean;
  readonly autoResume: boolean | undefined;
  readonly onNotResumed: OnNotResumed | undefined;
  /** Null: this workflow has no age limit, even if the app has one. */
  readonly maxResumeAgeMs: number | null | undefined;
  readonly maxAttempts: number | undefined;
  readonly onExceeded: OnExceeded | undefined;
}

/** The settings that apply to one workflow in one app. */
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

/** Throws if a setting of `recovery` was given outside of `recovery`, among options with the names `known`. */
export function checkNotBeside(what: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue;
    const meant = optionNames.find((name) => name.toLowerCase() === key.toLowerCase());
    if (meant) throw wrongOption(what, key, `is an option of "recovery": give { recovery: { ${meant} } }`);
  }
}

/** Returns the checked settings of `launch({ recovery })`. Throws a typed error if one is invalid. */
export function checkRecovery(options: RecoveryOptions = {}): RecoverySettings {
  const what = 'launch({ recovery })';
  checkKnownOptions(what, options, optionNames);
  const { enabled = defaultRecovery.enabled, staleTimeout = defaultRecovery.staleTimeoutMs } = options;
  if (typeof enabled !== 'boolean') throw invalidOption(what, 'enabled', enabled, 'true or false');
  const staleTimeoutMs = parseDuration(staleTimeout, `The staleTimeout of ${what}`);
  if (staleTimeoutMs < shortestStaleMs) {
    const expected = 'at least 3 seconds (otherwise one slow answer of the database would look like a dead process)';
    throw invalidOption(what, 'staleTimeout', staleTimeout, expected);
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

/**
 * Returns the checked settings of one workflow. Throws a typed error if one is invalid. `maxRecoveryAttempts` is
 * another name of `maxAttempts`.
 */
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
    throw wrongOption(what, 'maxRecoveryAttempts', 'is another name of recovery.maxAttempts: give only one of them');
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

/** Returns the limit in milliseconds, or null for 0, which means that there is no limit. */
function ageLimit(age: Duration, what: string): number | null {
  return parseDuration(age, what) || null;
}

/** Combines the settings of a workflow with those of the app. The settings of the workflow take precedence. */
export function policyFor(own: WorkflowRecovery, app: RecoverySettings): RecoveryPolicy {
  return {
    resumable: own.resumable,
    autoResume: own.autoResume ?? app.autoResume,
    onNotResumed: own.onNotResumed ?? app.onNotResumed,
    // `??` would be wrong here, because null is a setting of the workflow: it has no limit.
    maxResumeAgeMs: own.maxResumeAgeMs === undefined ? app.maxResumeAgeMs : own.maxResumeAgeMs,
    maxAttempts: own.maxAttempts ?? app.maxAttempts,
    onExceeded: own.onExceeded ?? app.onExceeded,
  };
}
