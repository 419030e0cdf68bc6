import type { RecoveryPolicy } from '../model/recovery.js';
import type { WorkflowKey } from '../model/workflow-key.js';
import type { RecoveryDecision } from '../storage/contract/takeovers.js';

/** What becomes of a workflow whose process died: decided here for people to read, and as terms for the statement that acts. */

/**
 * - `none`: its executor lives, or nobody here can say more.
 * - `resume`: it goes back on its queue, and some process runs it from its last step.
 * - `cancel`, `set-aside`, `dead-letter`: it becomes CANCELLED, STALLED, MAX_RECOVERY_ATTEMPTS_EXCEEDED.
 * - `wait-for-operator`: nothing happens to it until someone says so.
 * - `other-version`: only processes of its own version touch it.
 */
export type RecoveryAction =
  | 'none'
  | 'resume'
  | 'cancel'
  | 'set-aside'
  | 'wait-for-operator'
  | 'dead-letter'
  | 'other-version';

export interface RecoveryPlan {
  readonly action: RecoveryAction;
  /** When, in epoch milliseconds on the database's clock; null: never, or nobody knows. */
  readonly at: number | null;
  readonly because: string;
}

/** What the policy looks at. */
export interface Interrupted {
  readonly startedAt: number;
  readonly attempts: number;
}

/**
 * What the policy says of a run whose process is dead. The order is that of the statement (storage/sql/takeovers.ts): too
 * old comes first, whether or not anything would be resumed.
 */
export function judge(policy: RecoveryPolicy, run: Interrupted, now: number): Omit<RecoveryPlan, 'at'> {
  const { maxResumeAgeMs, maxAttempts, onExceeded } = policy;
  const isExceeded = run.attempts > maxAttempts;
  if (maxResumeAgeMs !== null && run.startedAt < now - maxResumeAgeMs) {
    return { action: 'cancel', because: tooOldReason(maxResumeAgeMs) };
  }
  if (isExceeded && onExceeded === 'cancel') return { action: 'cancel', because: exceededReason(maxAttempts) };
  if (!policy.autoResume && policy.onNotResumed === 'cancel') return { action: 'cancel', because: notResumedReason };
  if (!policy.autoResume) return { action: 'wait-for-operator', because: 'autoResume is false' };
  const action = !policy.resumable ? 'set-aside' : isExceeded ? 'dead-letter' : 'resume';
  return { action, because: becauseOf(action, policy) };
}

/** Why that becomes of it: the same words before a sweep, by a dry run, and after it. */
export function becauseOf(
  action: 'resume' | 'set-aside' | 'dead-letter',
  { maxAttempts }: Pick<RecoveryPolicy, 'maxAttempts'>,
): string {
  if (action === 'set-aside') return setAsideReason;
  return action === 'dead-letter' ? exceededReason(maxAttempts) : 'its process is dead';
}

/** The same as terms for a takeover. An operator who asks for it by name does not wait for himself (`autoResume`). */
export function decisionFor(key: WorkflowKey, policy: RecoveryPolicy, now: number): RecoveryDecision {
  const { maxResumeAgeMs, maxAttempts, onExceeded, resumable, autoResume, onNotResumed } = policy;
  const { name, className, configName } = key;
  return {
    ...{ name, className, configName, maxAttempts },
    tooOld:
      maxResumeAgeMs === null ? null : { startedBefore: now - maxResumeAgeMs, reason: tooOldReason(maxResumeAgeMs) },
    exceeded: onExceeded === 'cancel' ? exceededReason(maxAttempts) : null,
    notResumed: !autoResume && onNotResumed === 'cancel' ? notResumedReason : null,
    setAside: resumable ? null : setAsideReason,
    resumes: autoResume,
  };
}

/** What an operator who names a workflow gets, whatever its policy: it is run again. */
export function insisting(policy: RecoveryPolicy): RecoveryPolicy {
  return { ...policy, autoResume: true, resumable: true, maxResumeAgeMs: null, onExceeded: 'dead-letter' };
}

function tooOldReason(maxResumeAgeMs: number): string {
  return `its process died, and it had started longer ago than maxResumeAge (${durationText(maxResumeAgeMs)})`;
}

function exceededReason(maxAttempts: number): string {
  return `its process died once more than its ${maxAttempts} recovery attempts`;
}

const notResumedReason = "its process died, and autoResume is false (onNotResumed: 'cancel')";

const setAsideReason =
  'its process died, and it is not to be resumed by itself (resumable: false). See what it has done, then resume or delete it.';

const units = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
  [1, 'ms'],
] as const;

function durationText(ms: number): string {
  const [unitMs, unit] = units.find(([each]) => ms >= each && ms % each === 0) ?? [1, 'ms'];
  return `${ms / unitMs}${unit}`;
}
