import type { WorkflowStatus } from '../model/status.js';
import type { Failure } from './database.js';

/**
 * The storage contract, by noun. One implementation of it (`sql/`) serves both databases, and one contract suite
 * proves it on each.
 *
 * **Invariant:** every write of an execution names the owner token it holds and changes nothing if the workflow is no
 * longer PENDING under that token. A write reports what it changed, so a caller can tell "done" from "not mine".
 *
 * Instants are epoch milliseconds given by the caller, from the clock that follows the database's (model/clock.ts).
 */
export interface Storage {
  readonly workflows: Workflows;
  readonly steps: Steps;
  readonly versions: Versions;
  /** How many batches of one kind are worth writing at once. */
  readonly writeLanes: number;
  classify(error: unknown): Failure;
  now(): Promise<number>;
  changeCounter(): number | null;
  close(): Promise<void>;
}

/** A workflow as stored: values are still text. */
export interface WorkflowRecord {
  readonly workflowId: string;
  readonly status: WorkflowStatus;
  readonly name: string;
  readonly inputs: string | null;
  readonly output: string | null;
  readonly error: string | null;
  readonly serialization: string | null;
  readonly executorId: string | null;
  readonly owner: string | null;
  readonly version: string | null;
  readonly appName: string | null;
  readonly attempts: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly timeoutMs: number | null;
  readonly deadlineAt: number | null;
  readonly parentWorkflowId: string | null;
  readonly queueName: string | null;
  readonly user: string | null;
  readonly roles: string | null;
  readonly attributes: string | null;
  readonly statusReason: string | null;
}

/** A workflow that starts at once in this process. */
export interface NewWorkflow {
  readonly workflowId: string;
  readonly name: string;
  readonly inputs: string;
  readonly serialization: string;
  readonly owner: string;
  readonly version: string;
  readonly createdAt: number;
  readonly timeoutMs: number | null;
  readonly deadlineAt: number | null;
  readonly user: string | null;
  readonly roles: string | null;
  readonly attributes: string | null;
}

/** A workflow started by another: written only while the parent is still its owner's. */
export interface NewChild extends NewWorkflow {
  readonly parentWorkflowId: string;
  readonly parentOwner: string;
  /** Not reached by the parent's cancel (`timeout: null`). */
  readonly detached: boolean;
}

/** The process on whose behalf rows are written. */
export interface Writer {
  readonly executorId: string;
  readonly appName: string;
}

export interface FinishedWorkflow {
  readonly workflowId: string;
  readonly owner: string;
  readonly status: 'SUCCESS' | 'ERROR';
  readonly output: string | null;
  readonly error: string | null;
  readonly completedAt: number;
}

/** A workflow name that this process can run, and how often it may be tried. */
export interface Runnable {
  readonly name: string;
  readonly maxRecoveryAttempts: number;
}

export interface Claim {
  readonly writer: Writer;
  readonly owner: string;
  readonly version: string;
  readonly runnable: readonly Runnable[];
  readonly now: number;
  readonly limit: number;
}

/** How a workflow ended, if it has: what everyone who waits for it needs. */
export interface Ending {
  readonly workflowId: string;
  readonly status: WorkflowStatus;
  readonly output: string | null;
  readonly error: string | null;
  readonly serialization: string | null;
  readonly statusReason: string | null;
}

/** `owner` tells which execution it was: the workflow may have been resumed since, and belong to another. */
export interface CancelledWorkflow {
  readonly workflowId: string;
  readonly owner: string | null;
  readonly reason: string | null;
}

export interface WorkflowFilter {
  readonly ids?: readonly string[];
  readonly status?: readonly WorkflowStatus[];
  readonly name?: string;
  readonly executorId?: string;
  readonly version?: string;
  readonly parentWorkflowId?: string;
  readonly newestFirst?: boolean;
  readonly limit?: number;
  readonly offset?: number;
}

export interface Workflows {
  /** Returns the owner tokens of the rows that were new. A taken ID is left as it is. */
  insertMany(writer: Writer, rows: readonly NewWorkflow[]): Promise<Set<string>>;
  insertChildren(writer: Writer, rows: readonly NewChild[]): Promise<Set<string>>;
  /** Returns the IDs whose outcome was written: still PENDING and still this owner's. */
  finishMany(rows: readonly FinishedWorkflow[]): Promise<Set<string>>;
  get(workflowIds: readonly string[]): Promise<WorkflowRecord[]>;
  list(filter: WorkflowFilter): Promise<WorkflowRecord[]>;
  /** Where these stand; outcomes only of those that have ended. Unknown IDs are missing from the answer. */
  endings(workflowIds: readonly string[]): Promise<Ending[]>;
  /**
   * Takes PENDING workflows away from these executors: a fresh owner token, one attempt more. What has had its
   * attempts becomes MAX_RECOVERY_ATTEMPTS_EXCEEDED and is returned as such. Work of a queue goes back to it instead
   * (returned as ENQUEUED). Names that this process cannot run are left alone,
   * and so is work under an owner token like `exceptOwners` (a LIKE pattern): what the caller itself is running.
   */
  claimPending(
    claim: Claim & { readonly executorIds: readonly string[]; readonly exceptOwners: string },
  ): Promise<WorkflowRecord[]>;
  /** Takes ENQUEUED workflows from a queue, oldest first; attempts and limits as above. */
  claimEnqueued(claim: Claim & { readonly queueName: string }): Promise<WorkflowRecord[]>;
  /** What a claim under this owner token has taken, if it was committed. */
  claimedUnder(params: {
    readonly owner: string;
    readonly executorId: string;
    readonly version: string;
  }): Promise<WorkflowRecord[]>;
  /** PENDING workflows of these executors, by name: what a recovery would have to run. */
  pendingNames(params: {
    readonly executorIds: readonly string[];
    readonly version: string;
    readonly appName: string;
  }): Promise<{ readonly name: string; readonly workflowId: string }[]>;
  /** The executors that have PENDING work of this version. */
  pendingExecutors(params: { readonly version: string; readonly appName: string }): Promise<string[]>;
  /** How much PENDING work belongs to each other version of the app: work that this version will not touch. */
  pendingOfOtherVersions(params: {
    readonly version: string;
    readonly appName: string;
  }): Promise<{ readonly version: string; readonly count: number }[]>;
  /** Cancels these and all their descendants but the detached ones. Returns those that changed. */
  cancel(params: {
    readonly workflowIds: readonly string[];
    readonly reason: string | null;
    readonly now: number;
  }): Promise<CancelledWorkflow[]>;
  /** IDs of unfinished workflows whose deadline has passed, running, dead or handed over. */
  expired(params: { readonly now: number; readonly limit: number }): Promise<string[]>;
  /** Which workflows were cancelled since then, by anyone. */
  cancelledSince(since: number): Promise<CancelledWorkflow[]>;
  /** CANCELLED, dead-lettered and STALLED workflows, and their cancelled children, go back on a queue. */
  resume(params: {
    readonly workflowIds: readonly string[];
    readonly queueName: string;
    readonly now: number;
  }): Promise<string[]>;
  /** Hands unfinished work back: ENQUEUED, owned by nobody, the attempt given back. */
  release(params: {
    readonly owned: readonly { readonly workflowId: string; readonly owner: string }[];
    readonly queueName: string;
    readonly now: number;
  }): Promise<Set<string>>;
  /** Sets one aside as STALLED, its attempt given back. Returns whether it was still this owner's. */
  stall(params: {
    readonly workflowId: string;
    readonly owner: string;
    readonly error: string;
    readonly reason: string;
    readonly now: number;
  }): Promise<boolean>;
}

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
}

export interface NewStep extends StepRecord {
  readonly owner: string;
}

export interface CompletedStep {
  readonly workflowId: string;
  readonly owner: string;
  readonly stepNumber: number;
  readonly completedAt: number;
  readonly completionSeq: number;
}

/** How a step's write stands when it was not confirmed: read in one snapshot with the workflow's ownership. */
export interface StepStanding {
  readonly workflowId: string;
  readonly stepNumber: number;
  readonly owner: string | null;
  readonly status: WorkflowStatus;
  readonly recorded: boolean;
  readonly completionSeq: number | null;
}

export interface Steps {
  /** Returns the keys (`stepKey`) of the rows that were written. */
  recordMany(appName: string, rows: readonly NewStep[]): Promise<Set<string>>;
  /** Gives begun steps their end. Returns the keys of those that changed. */
  completeMany(rows: readonly CompletedStep[]): Promise<Set<string>>;
  standing(keys: readonly { readonly workflowId: string; readonly stepNumber: number }[]): Promise<StepStanding[]>;
  /** All recorded steps of these workflows, in no particular order. */
  history(workflowIds: readonly string[]): Promise<StepRecord[]>;
}

export function stepKey(step: { readonly workflowId: string; readonly stepNumber: number }): string {
  return `${step.stepNumber}:${step.workflowId}`;
}

export interface VersionRecord {
  readonly name: string;
  readonly createdAt: number;
  /** When it was last made the latest; the highest one is. */
  readonly latestAt: number;
}

export interface Versions {
  register(params: { readonly name: string; readonly appName: string; readonly now: number }): Promise<void>;
  list(appName: string): Promise<VersionRecord[]>;
  setLatest(params: { readonly name: string; readonly appName: string; readonly now: number }): Promise<boolean>;
}
