import type { WorkflowKey } from '../../model/workflow-key.js';
import type { DequeueParams } from './claims.js';
import type { After } from './steps.js';
import type { ClaimedRecord, NewWorkflow } from './workflows.js';

/** The contract of the work on queues: it is enqueued, may wait for an instant, and is taken by a process. */
export interface EnqueuedWork {
  /**
   * Takes ENQUEUED workflows from a queue, in queue order, with a fresh owner token and one more attempt. The claim
   * counts as a start, unless the workflow returns from suspension. A workflow that has used up its attempts becomes
   * MAX_RECOVERY_ATTEMPTS_EXCEEDED and is returned. Workflows that this process cannot run stay unchanged.
   */
  dequeue(params: DequeueParams): Promise<Dequeued>;
  /** Returns the IDs of the new rows. Others: the ID or deduplication ID is taken, or the queue does not exist. */
  enqueueMany(rows: readonly EnqueuedWorkflow[]): Promise<Set<string>>;
  /**
   * Enqueues all rows or none. Returns the IDs of the new rows; a row that already exists for the same workflow counts
   * as done. The database refuses a taken deduplication ID. No row is new if a queue or a workflow does not fit.
   */
  enqueueAll(rows: readonly EnqueuedWorkflow[]): Promise<Set<string>>;
  /** Returns undefined if the deduplication ID is held by anything other than a debounced run of this workflow. */
  debounce(row: DebouncedWorkflow): Promise<{ readonly workflowId: string; readonly delayUntil: number } | undefined>;
  /** Returns the workflows that hold these deduplication IDs. */
  holders(keys: readonly DedupKey[]): Promise<(DedupKey & DedupHolder)[]>;
  /** Changes due workflows from DELAYED to ENQUEUED. Returns the queue of each. */
  promoteDue(params: { readonly now: number; readonly limit: number }): Promise<string[]>;
  /** Sets the instant at which a DELAYED workflow becomes due. Returns its queue; undefined: it is not DELAYED. */
  setDelay(params: {
    readonly workflowId: string;
    readonly delayUntil: number;
    readonly now: number;
  }): Promise<string | undefined>;
  /** Sets the priority of a workflow. Returns its queue, or undefined if the workflow does not wait on a queue. */
  setPriority(params: {
    readonly workflowId: string;
    readonly priority: number;
    readonly now: number;
  }): Promise<string | undefined>;
}

/** A workflow that waits on a queue until an executor takes it. */
export interface EnqueuedWorkflow extends Omit<NewWorkflow, 'owner' | 'version'>, Partial<After> {
  /** Null: the version that is the latest when the workflow is taken. */
  readonly version: string | null;
  readonly appName: string | null;
  readonly queueName: string;
  readonly priority: number;
  readonly dedupId: string | null;
  readonly partition: string | null;
  /** The workflow is DELAYED until this instant; null: ENQUEUED at once. */
  readonly delayUntil: number | null;
  readonly scheduleName: string | null;
  readonly parentWorkflowId: string | null;
  readonly parentOwner: string | null;
  readonly detached: boolean;
}

/** A call of a debouncer. The call starts a wait, or extends the current wait for `dedupId`. */
export interface DebouncedWorkflow extends Omit<EnqueuedWorkflow, 'parentOwner' | keyof After> {
  readonly delayUntil: number;
  readonly dedupId: string;
  /** The maximum length of the whole wait, from its first call. Null: no maximum, every call extends the wait. */
  readonly debounceTimeoutMs: number | null;
}

export interface DedupKey {
  readonly queueName: string;
  readonly dedupId: string;
}

/** The unfinished workflow that holds a deduplication ID. */
export interface DedupHolder extends WorkflowKey {
  readonly workflowId: string;
}

/** `held`: the claim kept the lock version of the queue. If not, the result says nothing about waiting work. */
export interface Dequeued {
  readonly claimed: ClaimedRecord[];
  readonly held: boolean;
  /** True: work of this version and work without a version waited. If others claimed too, more work may wait. */
  readonly mixed: boolean;
}
