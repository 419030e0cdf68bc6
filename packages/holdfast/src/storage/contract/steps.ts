import type { WorkflowStatus } from '../../model/status.js';
import type { Effect } from './messaging.js';

/** The part of the storage contract about steps: what they left behind. */

/** What a step left behind. A sleep that has begun but not ended has no `completionSeq` yet. */
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
   * The `completionSeq` of the last result that the code had been given when it asked for this step; -1: none, or one without
   * such a number. Null: the row is older than this column, or DBOS wrote it.
   */
  readonly requestedAfter: number | null;
}

/**
 * The last results of its workflow that were known to be committed when a row was submitted. The row is written only if
 * they are on record: a database that was restored from a backup, or a standby that lacks the last commits, may have lost
 * them, and a record with holes cannot be replayed.
 */
export interface After {
  /** Step number and `completionSeq` of one of them. Null: nothing was committed under this owner yet. */
  readonly afterStep: number | null;
  readonly afterSeq: number | null;
  /**
   * Null, or what else must be there, as JSON: more results (`{ step, seq }`), because nobody knows in which order concurrent
   * statements committed, and the child whose start this row records (`{ child }`).
   */
  readonly afterAlso: string | null;
}

export interface NewStep extends StepRecord, After {
  readonly owner: string;
}

/** A step with effects. They are left out, and the step's error is `errorIfAbsent`, if a recipient does not exist. */
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

/** How a step's write stands when it was not confirmed: read in one snapshot with the workflow's ownership. */
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
 * An attempt of a step: with `attempt` and `nextAt`, that one is over, and the next may begin then; without them, the next one
 * begins, whichever that is.
 */
export interface AttemptChange extends After {
  readonly workflowId: string;
  readonly owner: string;
  readonly stepNumber: number;
  /** Names this change: a repetition of it changes nothing more. */
  readonly token: string;
  readonly attempt: number | null;
  readonly nextAt: number | null;
  readonly at: number;
}

export interface AttemptState {
  readonly workflowId: string;
  readonly stepNumber: number;
  /** The change that this is the outcome of. If it is not the caller's, it is too early for the next attempt to begin. */
  readonly token: string;
  readonly attempt: number;
  /** When the next may begin; null: this one has begun, and nothing is known of its end. */
  readonly nextAt: number | null;
  /** Attempts of whose end nothing was known when the next one began: their processes died. */
  readonly interrupted: readonly number[];
}

export interface Steps {
  /** Returns the keys (`stepKey`) of the rows that were written. */
  recordMany(appName: string, rows: readonly NewStep[]): Promise<Set<string>>;
  /** The same for steps with effects. Also returns whether each had them. */
  recordEffects(appName: string, rows: readonly EffectfulStep[]): Promise<Map<string, boolean>>;
  /** Gives begun steps their end. Returns the keys of those that changed. */
  completeMany(rows: readonly CompletedStep[]): Promise<Set<string>>;
  /** How each of these attempts stands now; absent: the workflow is not this owner's. */
  changeAttempts(rows: readonly AttemptChange[]): Promise<Map<string, AttemptState>>;
  states(keys: readonly { readonly workflowId: string; readonly stepNumber: number }[]): Promise<StepState[]>;
  /** All recorded steps of these workflows, in no particular order. */
  history(workflowIds: readonly string[]): Promise<StepRecord[]>;
}

export function stepKey(step: { readonly workflowId: string; readonly stepNumber: number }): string {
  return `${step.stepNumber}:${step.workflowId}`;
}
