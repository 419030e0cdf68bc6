import type { RecoveryPolicy } from '../model/recovery.js';
import type { WorkflowKey } from '../model/workflow-key.js';
import type { RecoveryDecision } from '../storage/contract/takeovers.js';

/**
 * The recovery policy: what happens to a workflow whose process died. It exists in two forms: as a plan for people to
 * read, and as parameters of the statement that acts.
 */

/**
 * The action of recovery for an unfinished workflow.
 *
 * - `none`: nothing. Its executor is alive, or this process cannot say more.
 * - `resume`: the workflow goes back on its queue, and a process continues it after its last recorded step.
 * - `cancel`: the workflow becomes CANCELLED.
 * - `stall`: the workflow becomes STALLED.
 * - `dead-letter`: the workflow becomes MAX_RECOVERY_ATTEMPTS_EXCEEDED.
 * - `wait-for-operator`: nothing, until an operator decides.
 * - `other-version`: nothing. Only processes of the workflow's own version take it over.
 */
export type RecoveryAction =
  | 'none'
  | 'resume'
  | 'cancel'
  | 'stall'
  | 'wait-for-operator'
  | 'dead-letter'
  | 'other-version';

/** The plan of recovery for an unfinished workflow: the action, its time and its reason. */
export interface RecoveryPlan {
  readonly action: RecoveryAction;
  /** Epoch milliseconds on the database's clock. Null: never, or unknown. */
  readonly at: number | null;
  /** The reason, in words. */
  readonly because: string;
}

/** The facts about an interrupted run that the policy depends on. */
export interface Interrupted {
  readonly startedAt: number;
  readonly attempts: number;
}

/**
 * Applies the policy to a run whose process is dead. The rules have the same order as in the statement
 * (storage/sql/takeovers.ts): the age limit comes first, even with `autoResume: false`.
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
  const action = !policy.resumable ? 'stall' : isExceeded ? 'dead-letter' : 'resume';
  return { action, because: reasonOf(action, policy) };
}

/** Returns the reason of an action. A dry run, a sweep and its report all use the same words. */
export function reasonOf(
  action: 'resume' | 'stall' | 'dead-letter',
  { maxAttempts }: Pick<RecoveryPolicy, 'maxAttempts'>,
): string {
  if (action === 'stall') return notResumableReason;
  return action === 'dead-letter' ? exceededReason(maxAttempts) : 'its process is dead';
}

/**
 * Returns the policy as parameters of a takeover. If an operator asks for it, the caller sets `autoResume` to true
 * first.
 */
export function decisionFor(key: WorkflowKey, policy: RecoveryPolicy, now: number): RecoveryDecision {
  const { maxResumeAgeMs, maxAttempts, onExceeded, resumable, autoResume, onNotResumed } = policy;
  const { name, className, configName } = key;
  return {
    ...{ name, className, configName, maxAttempts },
    tooOld:
      maxResumeAgeMs === null ? null : { startedBefore: now - maxResumeAgeMs, reason: tooOldReason(maxResumeAgeMs) },
    exceeded: onExceeded === 'cancel' ? exceededReason(maxAttempts) : null,
    notResumed: !autoResume && onNotResumed === 'cancel' ? notResumedReason : null,
    stallReason: resumable ? null : notResumableReason,
    resumes: autoResume,
  };
}

/**
 * Returns the policy for a workflow that an operator recovers by its ID: it is resumed, whatever its own policy says.
 */
export function forcedPolicy(policy: RecoveryPolicy): RecoveryPolicy {
  return { ...policy, autoResume: true, resumable: true, maxResumeAgeMs: null, onExceeded: 'dead-letter' };
}

function tooOldReason(maxResumeAgeMs: number): string {
  return `its process died, and it started longer ago than maxResumeAge (${durationText(maxResumeAgeMs)})`;
}

function exceededReason(maxAttempts: number): string {
  return `its process died, and its ${maxAttempts} recovery attempts are used up`;
}

const notResumedReason = "its process died, and autoResume is false (onNotResumed: 'cancel')";

const notResumableReason =
  'its process died, and it has resumable: false. Find out what it has done, then resume or delete it.';

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
