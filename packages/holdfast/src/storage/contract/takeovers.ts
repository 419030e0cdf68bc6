import type { WorkflowKey } from '../../model/workflow-key.js';
import type { CancelledWorkflow } from './cancelled.js';

/** Takes work away from dead executors, and finds the work that can be taken. */

/** An executor whose work is to be taken over. */
export interface DeadExecutor {
  readonly executorId: string;
  /**
   * Takes only what this incarnation owns. Null: takes everything that is owned under the executor ID, except the work
   * of live incarnations.
   */
  readonly incarnation: string | null;
  /**
   * Nothing is taken if the executor has sent more heartbeats than this number: then it is alive. Null: the executor is
   * certainly dead.
   */
  readonly beats?: number | null;
}

/**
 * Selects the PENDING work that is free to take: the work of these executors, or these workflows unless a live executor
 * owns them.
 */
export type FreeWork = {
  readonly appName: string;
  readonly version: string;
  /** Incarnations that are alive. Their work is not free, whatever its executor ID. */
  readonly live: readonly string[];
  /**
   * Incarnations that are known to be dead. All other incarnations in the table count as live, including those that
   * joined a moment ago. Absent: an operator decides, and only the incarnations of `live` count as live.
   */
  readonly dead?: readonly string[];
} & ({ readonly executors: readonly DeadExecutor[] } | { readonly workflowIds: readonly string[] });

/** The decision about a workflow that is taken over. Workflows without a decision stay unchanged. */
export interface RecoveryDecision extends WorkflowKey {
  readonly maxAttempts: number;
  /** If the workflow started before this instant, it becomes CANCELLED with this reason. */
  readonly tooOld: { readonly startedBefore: number; readonly reason: string } | null;
  /**
   * If the workflow has used up its attempts, it becomes CANCELLED with this reason. Null: it is dead-lettered
   * (MAX_RECOVERY_ATTEMPTS_EXCEEDED).
   */
  readonly exceeded: string | null;
  /** The workflow becomes CANCELLED with this reason, whatever its age and attempts. Null: the other members decide. */
  readonly notResumed: string | null;
  /** The workflow becomes STALLED with this reason. Null: it goes back on its queue. */
  readonly stallReason: string | null;
  /** False: the workflow stays unchanged, unless it is to be cancelled. */
  readonly resumes: boolean;
}

export interface Takeover {
  readonly free: FreeWork;
  readonly decisions: readonly RecoveryDecision[];
  readonly now: number;
  readonly limit: number;
}

/** A workflow that was put back on its queue, stalled or dead-lettered. */
export interface TakenOver extends WorkflowKey {
  readonly workflowId: string;
  readonly status: 'ENQUEUED' | 'STALLED' | 'MAX_RECOVERY_ATTEMPTS_EXCEEDED';
  readonly queueName: string | null;
  readonly attempts: number;
  readonly createdAt: number;
}

/** Unfinished work that an executor owns, or owned before. */
export interface IncompleteRecord extends WorkflowKey {
  readonly workflowId: string;
  /** ENQUEUED: the process of the workflow has handed it over. */
  readonly status: 'PENDING' | 'ENQUEUED';
  readonly executorId: string | null;
  readonly owner: string | null;
  readonly version: string | null;
  readonly attempts: number;
  readonly createdAt: number;
  /** The instant of its first start. Takeovers do not change this instant. */
  readonly startedAt: number;
}

export interface IncompleteFilter {
  /** Empty: all apps. */
  readonly appName: string;
  readonly workflowIds?: readonly string[];
  readonly executorIds?: readonly string[];
  readonly name?: string;
  /**
   * Adds handed-over work to the PENDING work: the work of all versions that are not in `butFor`. With `only`, returns
   * the handed-over work alone.
   */
  readonly handedOver?: { readonly butFor: readonly string[]; readonly only?: boolean };
  /** Returns only records behind this one, in the order of creation. */
  readonly after?: Pick<IncompleteRecord, 'createdAt' | 'workflowId'>;
  readonly limit: number;
  readonly offset?: number;
}

/**
 * **Invariant:** each of these statements selects and changes rows in one step, and only rows that are PENDING and free
 * at that moment. If several processes try, one succeeds, and the former owner is fenced from then on.
 */
export interface Takeovers {
  /** Cancels the workflows that are to be cancelled, with their descendants. Returns all that changed. */
  cancel(takeover: Takeover): Promise<(CancelledWorkflow & { readonly name: string })[]>;
  /**
   * Returns the unfinished workflows that would be cancelled together with these workflows, each with the workflow
   * (`root`) that causes its cancellation.
   */
  descendants(
    workflowIds: readonly string[],
  ): Promise<{ readonly workflowId: string; readonly name: string; readonly root: string }[]>;
  /**
   * Puts the other workflows back on their queue, or on `queueName`: they become ENQUEUED, have no owner, and no
   * attempt is counted. A workflow may also become STALLED, or be dead-lettered with one more attempt, as a dequeue
   * would do. The statement waits a while for locked rows, unless `passOverLocked` is true.
   */
  putBack(takeover: Takeover & { readonly queueName: string; readonly passOverLocked?: boolean }): Promise<TakenOver[]>;
  /** Returns the workflows that are free to take, each with one ID and a count. */
  left(free: FreeWork): Promise<(WorkflowKey & { readonly workflowId: string; readonly count: number })[]>;
  /** Returns the number of free workflows of each other version. A process of this version does not touch them. */
  stranded(free: FreeWork): Promise<{ readonly version: string; readonly count: number }[]>;
  /** Returns the executors that have PENDING work of this version. */
  executors(params: { readonly version: string; readonly appName: string }): Promise<string[]>;
  /**
   * Returns how much work is PENDING or handed over for each other version of the app, whether or not an executor of
   * that version lives.
   */
  otherVersions(params: {
    readonly version: string;
    readonly appName: string;
  }): Promise<{ readonly version: string; readonly count: number }[]>;
  /**
   * Returns all PENDING workflows under tokens of one process, in one statement. A process may have a hundred thousand
   * suspended workflows, and ordered paging would read all of them for each page.
   */
  pendingUnder(params: {
    readonly executorId: string;
    readonly version: string;
    readonly incarnation: string;
  }): Promise<{ readonly workflowId: string; readonly owner: string }[]>;
  /** Returns PENDING work, and handed-over work if the filter asks for it, oldest first. */
  incomplete(filter: IncompleteFilter): Promise<IncompleteRecord[]>;
}
