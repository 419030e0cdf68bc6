import type { WorkflowKey } from '../../model/workflow-key.js';
import type { CancelledWorkflow } from './cancelled.js';

/** Taking work away from executors that are dead, and looking at what there is to take. */

/** Whose work is meant. */
export interface DeadExecutor {
  readonly executorId: string;
  /** Only what this incarnation owns; null: what anybody owns under the ID, but for the incarnations that live. */
  readonly incarnation: string | null;
  /** Nothing is taken if it has beaten more often by then: it is alive after all. Null: it is certain that it is not. */
  readonly beats?: number | null;
}

/** Whose PENDING work is free to take: that of these executors, or these very workflows unless a live one owns them. */
export type Free = {
  readonly appName: string;
  readonly version: string;
  /** Incarnations whose work is not free, whatever executor ID it is under. */
  readonly live: readonly string[];
  /**
   * Incarnations that are known to be dead: all others in the table live, also those that joined a moment ago. Absent: only
   * those of `live` do, on an operator's word.
   */
  readonly dead?: readonly string[];
} & ({ readonly executors: readonly DeadExecutor[] } | { readonly workflowIds: readonly string[] });

/** What is to become of a workflow that is taken over. Those that no fate is given for are left alone. */
export interface RecoveryDecision extends WorkflowKey {
  readonly maxAttempts: number;
  /** It started before this instant: CANCELLED, with this reason. */
  readonly tooOld: { readonly startedBefore: number; readonly reason: string } | null;
  /** It has had its attempts: CANCELLED, with this reason. Null: it is given up (MAX_RECOVERY_ATTEMPTS_EXCEEDED). */
  readonly exceeded: string | null;
  /** CANCELLED, with this reason, whatever its age and attempts. Null: the other members decide. */
  readonly notResumed: string | null;
  /** STALLED, with this reason. Null: back on its queue. */
  readonly setAside: string | null;
  /** False: it stays where it is, unless it is to be cancelled. */
  readonly resumes: boolean;
}

export interface Takeover {
  readonly free: Free;
  readonly fates: readonly RecoveryDecision[];
  readonly now: number;
  readonly limit: number;
}

/** A workflow that was put back, or set aside, or given up. */
export interface TakenOver extends WorkflowKey {
  readonly workflowId: string;
  readonly status: 'ENQUEUED' | 'STALLED' | 'MAX_RECOVERY_ATTEMPTS_EXCEEDED';
  readonly queueName: string | null;
  readonly attempts: number;
  readonly createdAt: number;
}

/** Unfinished work that some executor has, or had. */
export interface IncompleteRecord extends WorkflowKey {
  readonly workflowId: string;
  /** ENQUEUED: its process has handed it over. */
  readonly status: 'PENDING' | 'ENQUEUED';
  readonly executorId: string | null;
  readonly owner: string | null;
  readonly version: string | null;
  readonly attempts: number;
  readonly createdAt: number;
  /** When it first ran, however often it was taken over since. */
  readonly startedAt: number;
}

export interface IncompleteFilter {
  /** Empty: of every app. */
  readonly appName: string;
  readonly workflowIds?: readonly string[];
  readonly executorIds?: readonly string[];
  readonly name?: string;
  /** Besides PENDING work, or instead of it (`only`): what was handed over for other versions than these. */
  readonly handedOver?: { readonly butFor: readonly string[]; readonly only?: boolean };
  /** Those behind this one, in the order of creation. */
  readonly after?: Pick<IncompleteRecord, 'createdAt' | 'workflowId'>;
  readonly limit: number;
  readonly offset?: number;
}

/**
 * **Invariant:** each of these statements picks rows and changes them in one go, and only rows that are PENDING and free at
 * that moment. Of any number of processes that try, one succeeds, and a former owner is fenced from then on.
 */
export interface Takeovers {
  /** Cancels what is to be cancelled, with descendants. Returns all that changed. */
  cancel(takeover: Takeover): Promise<(CancelledWorkflow & { readonly name: string })[]>;
  /** Which unfinished workflows would be cancelled with these, and with which of them. */
  descendants(
    workflowIds: readonly string[],
  ): Promise<{ readonly workflowId: string; readonly name: string; readonly root: string }[]>;
  /**
   * Puts the rest back on its queue, or on `queueName`: ENQUEUED, owned by nobody, no attempt counted. Or sets it aside, or
   * gives it up, with one attempt more, as whoever dequeued it would. What is locked is waited for, for a while, unless it is
   * to be passed over.
   */
  putBack(takeover: Takeover & { readonly queueName: string; readonly passOverLocked?: boolean }): Promise<TakenOver[]>;
  /** Which workflows are free to take, with one ID of each, and how many there are. */
  left(free: Free): Promise<(WorkflowKey & { readonly workflowId: string; readonly count: number })[]>;
  /** The same by version, of the other versions: work that this one does not touch. */
  stranded(free: Free): Promise<{ readonly version: string; readonly count: number }[]>;
  /** The executors that have PENDING work of this version. */
  executors(params: { readonly version: string; readonly appName: string }): Promise<string[]>;
  /** How much work that is PENDING or was handed over belongs to each other version of the app, whether or not one lives. */
  otherVersions(params: {
    readonly version: string;
    readonly appName: string;
  }): Promise<{ readonly version: string; readonly count: number }[]>;
  /**
   * All that is PENDING under tokens of one process, in one statement: it may have a hundred thousand at rest, and paging
   * through them in an order would read them all for each page.
   */
  pendingUnder(params: {
    readonly executorId: string;
    readonly version: string;
    readonly incarnation: string;
  }): Promise<{ readonly workflowId: string; readonly owner: string }[]>;
  /** PENDING work, and what was handed over if that is asked for, oldest first. */
  incomplete(filter: IncompleteFilter): Promise<IncompleteRecord[]>;
}
