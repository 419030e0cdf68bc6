import type { WorkflowStatus } from '../../model/status.js';
import type { WorkflowKey } from '../../model/workflow-key.js';
import type { CancelledWorkflow } from './cancelled.js';
import type { Writer } from './claims.js';
import type { After } from './steps.js';

/** A workflow as stored: values are still text. */
export interface WorkflowRecord extends WorkflowKey {
  readonly workflowId: string;
  readonly status: WorkflowStatus;
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
  readonly priority: number;
  readonly dedupId: string | null;
  readonly partition: string | null;
  readonly delayUntil: number | null;
  readonly scheduleName: string | null;
  readonly user: string | null;
  readonly roles: string | null;
  readonly assumedRole: string | null;
  readonly attributes: string | null;
  readonly statusReason: string | null;
  readonly forkedFrom: string | null;
  readonly wasForkedFrom: boolean;
  /** For a fork that repeats steps of another workflow: the random seed and the start (`beganAt`) of that workflow. */
  readonly seed: string | null;
  readonly beganAt: number | null;
  /** Distinguishes workflows that had the same ID one after the other. Null: the row is older than this column. */
  readonly incarnation: string | null;
  /** The stored retries of the workflow (model/retries.ts); null: none. */
  readonly retries: string | null;
  /** For a failed workflow: work that may have been done but is not recorded (model/retries.ts); null: none. */
  readonly underWay: string | null;
  /** For a workflow that was just taken from a queue. True: no earlier execution can have left steps behind. */
  readonly neverRan: boolean;
}

/** A workflow that starts at once in this process. */
export interface NewWorkflow extends WorkflowKey {
  readonly workflowId: string;
  readonly inputs: string;
  readonly serialization: string;
  readonly owner: string;
  readonly version: string;
  readonly createdAt: number;
  readonly timeoutMs: number | null;
  readonly deadlineAt: number | null;
  readonly user: string | null;
  readonly roles: string | null;
  /** The role, among `roles`, in which the workflow was started. */
  readonly assumedRole: string | null;
  readonly attributes: string | null;
}

/** A workflow that another workflow starts. The row is written only while the parent still belongs to its owner. */
export interface NewChild extends NewWorkflow, After {
  readonly parentWorkflowId: string;
  readonly parentOwner: string;
  /** True: a cancellation of the parent does not cancel this child (`timeout: null`). */
  readonly detached: boolean;
}

export interface FinishedWorkflow extends After {
  readonly workflowId: string;
  readonly owner: string;
  readonly status: 'SUCCESS' | 'ERROR';
  readonly output: string | null;
  readonly error: string | null;
  readonly underWay: string | null;
  readonly completedAt: number;
}

/** The outcome of a workflow, if it has ended, with everything that a waiting caller needs. */
export interface Ending {
  readonly workflowId: string;
  readonly status: WorkflowStatus;
  readonly output: string | null;
  readonly error: string | null;
  readonly serialization: string | null;
  readonly statusReason: string | null;
}

/** The columns that a claim returns: those that are needed to run the workflow. */
export type ClaimedRecord = Pick<
  WorkflowRecord,
  | 'workflowId'
  | 'status'
  | 'name'
  | 'className'
  | 'configName'
  | 'owner'
  | 'inputs'
  | 'serialization'
  | 'attempts'
  | 'createdAt'
  | 'deadlineAt'
  | 'parentWorkflowId'
  | 'queueName'
  | 'partition'
  | 'user'
  | 'roles'
  | 'assumedRole'
  | 'attributes'
  | 'seed'
  | 'beganAt'
  | 'incarnation'
  | 'retries'
  | 'neverRan'
>;

/** A workflow and the owner token under which it is expected to run. */
export interface OwnedWorkflow {
  readonly workflowId: string;
  readonly owner: string;
}

export interface WorkflowFilter {
  readonly ids?: readonly string[];
  readonly status?: readonly WorkflowStatus[];
  readonly name?: string;
  readonly executorId?: string;
  readonly version?: string;
  readonly parentWorkflowId?: string;
  readonly queue?: string;
  readonly schedule?: string;
  readonly forkedFrom?: string;
  readonly newestFirst?: boolean;
  readonly limit?: number;
  readonly offset?: number;
}

export interface Workflows {
  /** Returns the owner tokens of the new rows. A row whose ID is taken stays unchanged. */
  insertMany(writer: Writer, rows: readonly NewWorkflow[]): Promise<Set<string>>;
  insertChildren(writer: Writer, rows: readonly NewChild[]): Promise<Set<string>>;
  /** Returns the IDs of the workflows whose outcome was written: they were still PENDING under this owner. */
  finishMany(rows: readonly FinishedWorkflow[]): Promise<Set<string>>;
  get(workflowIds: readonly string[]): Promise<WorkflowRecord[]>;
  list(filter: WorkflowFilter): Promise<WorkflowRecord[]>;
  /** Returns the status of these workflows, and the outcome of those that have ended. Unknown IDs are missing. */
  endings(workflowIds: readonly string[]): Promise<Ending[]>;
  /** Returns the workflows that a claim under this owner token took, if the claim was committed. */
  claimedUnder(params: {
    readonly owner: string;
    readonly executorId: string;
    readonly version: string;
  }): Promise<WorkflowRecord[]>;
  /** Returns the workflows that are still PENDING and still belong to this owner. */
  owned(workflows: readonly OwnedWorkflow[]): Promise<ClaimedRecord[]>;
  /**
   * Cancels these workflows and all their descendants, except detached ones. Returns the workflows that changed.
   * `onChange` is called for each part when the part is committed, even if a later part fails.
   */
  cancel(
    params: {
      readonly workflowIds: readonly string[];
      readonly reason: string | null;
      readonly now: number;
    },
    onChange?: (part: readonly CancelledWorkflow[]) => void,
  ): Promise<CancelledWorkflow[]>;
  /** Returns the IDs of unfinished workflows whose deadline has passed, running or not. */
  expired(params: { readonly now: number; readonly limit: number }): Promise<string[]>;
  /** Returns the workflows that any process has cancelled since this instant. */
  cancelledSince(since: number): Promise<CancelledWorkflow[]>;
  /**
   * Puts CANCELLED, dead-lettered and STALLED workflows and their cancelled children back on their queues, or on
   * `queueName` if their queue is gone. With `moveTo`, the workflows go to that queue, but not their children.
   */
  resume(params: {
    readonly workflowIds: readonly string[];
    readonly queueName: string;
    readonly moveTo?: { readonly queueName: string; readonly partition: string | null };
    readonly now: number;
  }): Promise<{ readonly workflowId: string; readonly queueName: string }[]>;
  /** Hands unfinished work back: ENQUEUED, without an owner, and without counting the attempt. */
  release(params: {
    readonly owned: readonly OwnedWorkflow[];
    readonly queueName: string;
    readonly now: number;
    /** True: workflows that another session has locked stay unchanged. */
    readonly passOverLocked?: boolean;
  }): Promise<Set<string>>;
  /**
   * Marks these workflows as suspended: they hold no slot of their queue until they are taken from it again. Returns
   * the IDs of those that still belonged to this owner.
   */
  markSuspended(owned: readonly (OwnedWorkflow & After)[]): Promise<Set<string>>;
  /** Marks a workflow as STALLED; the attempt does not count. Returns whether it still belonged to this owner. */
  stall(params: {
    readonly workflowId: string;
    readonly owner: string;
    readonly error: string;
    readonly reason: string;
    readonly now: number;
  }): Promise<boolean>;
}
