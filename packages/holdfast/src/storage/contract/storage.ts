import type { WorkflowStatus } from '../../model/status.js';
import type { WorkflowKey } from '../../model/workflow-key.js';
import type { CallerTransaction, Purpose } from '../caller/transaction.js';
import type { CancelledWorkflow } from './cancelled.js';
import type { DequeueParams, Writer } from './claims.js';
import type { Deletions } from './deletions.js';
import type { Executors } from './executors.js';
import type { Failure } from './failure-kind.js';
import type { Forks } from './forks.js';
import type { ListenerCallbacks, Listening } from './listening.js';
import type { Events, Messages, Streams } from './messaging.js';
import type { Queues } from './queues.js';
import type { Retries } from './retries.js';
import type { Schedules } from './schedules.js';
import type { After, Steps } from './steps.js';
import type { Takeovers } from './takeovers.js';

export type { CancelledWorkflow } from './cancelled.js';
export type { Claim, DequeueParams, Portion, Runnable, Writer } from './claims.js';
export {
  type After,
  type AttemptChange,
  type AttemptState,
  type CompletedStep,
  type NewStep,
  type StepRecord,
  type StepState,
  type Steps,
  stepKey,
} from './steps.js';

/**
 * The storage contract, by noun. One implementation (`sql/`) serves both databases; one contract suite proves it on
 * each.
 *
 * **Invariant:** every write of an execution names the owner token that it holds, and changes nothing if the workflow
 * is no longer PENDING under this token. A write reports what it changed, so a caller can tell "done" from "not mine".
 *
 * Instants are epoch milliseconds given by the caller, from the clock that follows the database's clock
 * (model/clock.ts).
 */
export interface Storage {
  readonly workflows: Workflows;
  readonly steps: Steps;
  readonly versions: Versions;
  readonly executors: Executors;
  readonly takeovers: Takeovers;
  readonly forks: Forks;
  readonly retries: Retries;
  readonly deletions: Deletions;
  readonly queues: Queues;
  readonly schedules: Schedules;
  readonly messages: Messages;
  readonly events: Events;
  readonly streams: Streams;
  /**
   * The same operations for writes that the locks of other sessions have already blocked. They wait only briefly for a
   * lock, and one at a time, so that they do not block other writes.
   */
  readonly impatient: Pick<Storage, 'workflows' | 'steps' | 'messages'>;
  /** The number of batches of one kind that are worth writing at the same time. */
  readonly writeLanes: number;
  classify(error: unknown): Failure;
  now(): Promise<number>;
  changeCounter(): number | null;
  lostConnections(): number;
  readonly silentMessages: boolean;
  /**
   * Announces these topics to other processes of the same database. If an announcement is lost, their polls find the
   * change.
   */
  announce(topics: readonly string[]): Promise<void>;
  /** The same statements inside a transaction of the caller. */
  inTransaction(tx: CallerTransaction): TransactionStorage;
  /** Receives the announcements of other processes, until stopped. */
  listen(callbacks: ListenerCallbacks): Listening;
  close(): Promise<void>;
}

/**
 * Storage within a transaction of the caller. Its changes and announcements commit with this transaction or not at all.
 * Statements are not retried, and they read what the transaction sees.
 */
export interface TransactionStorage extends Pick<Storage, 'workflows' | 'queues' | 'steps' | 'messages' | 'announce'> {
  /** Resolves with true if the transaction is in the database of the system tables and its role has the rights. */
  reaches(purpose: Purpose): Promise<boolean>;
  /** Resolves with false if no transaction has begun. Only clients of pg need a check. */
  isOpen(): Promise<boolean>;
  /** Resolves with true if the transaction sees the workflow under this owner token. */
  owns(workflowId: string, owner: string): Promise<boolean>;
}

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

/** `held`: the claim kept the lock version of the queue. If not, the result says nothing about waiting work. */
export interface Dequeued {
  readonly claimed: ClaimedRecord[];
  readonly held: boolean;
  /** True: work of this version and work without a version waited. If others claimed too, more work may wait. */
  readonly mixed: boolean;
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

export interface VersionRecord {
  readonly name: string;
  /** Null: no app, as DBOS 4 registers versions. */
  readonly appName: string | null;
  readonly createdAt: number;
  /** The instant at which the version last became the latest. The highest value is the latest version. */
  readonly latestAt: number;
}

export interface Versions {
  /** Registers a version and returns the latest one. A new version becomes the latest, unless `asLatest` is false. */
  register(params: {
    readonly name: string;
    readonly appName: string;
    readonly asLatest?: boolean;
    readonly now: number;
  }): Promise<VersionRecord | undefined>;
  /** Returns the apps for which a version was ever registered. */
  apps(): Promise<string[]>;
  /** Returns the versions of an app. An empty name returns the versions of all apps. */
  list(appName: string): Promise<VersionRecord[]>;
  setLatest(params: { readonly name: string; readonly appName: string; readonly now: number }): Promise<boolean>;
}
