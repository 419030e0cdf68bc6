import type { WorkflowStatus } from '../../model/status.js';
import type { Effect } from './messaging.js';

/** The part of the storage contract about steps and their outcomes. */

/** The record of a step. A sleep that has started but not ended has no `completionSeq`. */
export interface StepRecord {
  readonly workflowId: string;
  readonly stepNumber: number;
  readonly name: string;
  readonly output: string | null;
  readonly error: string | null;
  readonly serialization: string | null;
  readonly childWorkflowId: string | null;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly completionSeq: number | null;
  /**
   * The `completionSeq` of the last result that the code had received when it called this step. -1: no result, or a
   * result without a `completionSeq`. Null: the row is older than this column, or DBOS wrote it.
   */
  readonly requestedAfter: number | null;
}

/**
 * The last results of a workflow that were known to be committed when one of its rows was submitted. The row is written
 * only if these results are stored. A database that was restored from a backup, or a standby that lacks the last
 * commits, may have lost them. A history with gaps cannot be replayed.
 */
export interface After {
  /**
   * The step number and `completionSeq` of one of these results. Null: no result has been committed under this owner.
   */
  readonly afterStep: number | null;
  readonly afterSeq: number | null;
  /**
   * Other data that must be stored, as JSON; null: none. The data can be more results (`{ step, seq }`), because the
   * commit order of concurrent statements is unknown. It can also be the child whose start this row records (`{ child
   * }`).
   */
  readonly afterAlso: string | null;
}

export interface NewStep extends StepRecord, After {
  readonly owner: string;
}

/**
 * A step with effects. If a recipient does not exist, the effects are left out and the error of the step is
 * `errorIfAbsent`.
 */
export interface EffectfulStep extends NewStep {
  readonly effects: readonly Effect[];
  readonly errorIfAbsent: string | null;
}

export interface CompletedStep extends After {
  readonly workflowId: string;
  readonly owner: string;
  readonly stepNumber: number;
  readonly completedAt: number;
  readonly completionSeq: number;
}

/** The state of a step whose write was not confirmed, read in one snapshot with the ownership of the workflow. */
export interface StepState {
  readonly workflowId: string;
  readonly stepNumber: number;
  readonly owner: string | null;
  readonly status: WorkflowStatus;
  readonly recorded: boolean;
  readonly failed: boolean;
  readonly completionSeq: number | null;
}

/**
 * A change in the attempts of a step. With `attempt` and `nextAt`, this attempt has ended and the next one may start at
 * `nextAt`. Without them, the next attempt starts, whatever its number.
 */
export interface AttemptChange extends After {
  readonly workflowId: string;
  readonly owner: string;
  readonly stepNumber: number;
  /** Identifies this change. A repetition with the same token changes nothing. */
  readonly token: string;
  readonly attempt: number | null;
  readonly nextAt: number | null;
  readonly at: number;
}

export interface AttemptState {
  readonly workflowId: string;
  readonly stepNumber: number;
  /**
   * The token of the change that produced this state. If the token is not the caller's, the next attempt may not start
   * yet.
   */
  readonly token: string;
  readonly attempt: number;
  /**
   * The instant at which the next attempt may start. Null: the current attempt has started, and its end is not
   * recorded.
   */
  readonly nextAt: number | null;
  /** Attempts whose end was not recorded when the next attempt started: their processes died. */
  readonly interrupted: readonly number[];
}

export interface Steps {
  /** Returns how many of the rows were written. If not all were, `states` tells which. */
  recordMany(appName: string, rows: readonly NewStep[]): Promise<number>;
  /** Records steps with effects. For each row that was written, the value tells whether its effects were applied. */
  recordEffects(appName: string, rows: readonly EffectfulStep[]): Promise<Map<string, boolean>>;
  /** Records the end of steps that have started. Returns how many of the steps changed. */
  completeMany(rows: readonly CompletedStep[]): Promise<number>;
  /**
   * Returns the state of each of these attempts after the change. A key is missing if the workflow no longer belongs to
   * this owner.
   */
  changeAttempts(rows: readonly AttemptChange[]): Promise<Map<string, AttemptState>>;
  states(keys: readonly { readonly workflowId: string; readonly stepNumber: number }[]): Promise<StepState[]>;
  /** Returns all recorded steps of these workflows, in no particular order. */
  history(workflowIds: readonly string[]): Promise<StepRecord[]>;
}

export function stepKey(step: { readonly workflowId: string; readonly stepNumber: number }): string {
  return `${step.stepNumber}:${step.workflowId}`;
}
