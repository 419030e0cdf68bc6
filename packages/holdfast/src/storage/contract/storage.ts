import type { WorkflowStatus } from '../../model/status.js';
import type { WorkflowKey } from '../../model/workflow-key.js';
import type { CallerTransaction, Purpose } from '../caller/transaction.js';
import type { Failure, ListenerCallbacks, Listening } from '../database.js';
import type { CancelledWorkflow } from './cancelled.js';
import type { DequeueParams, Writer } from './claims.js';
import type { Deletions } from './deletions.js';
import type { Executors } from './executors.js';
import type { Forks } from './forks.js';
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
   * The same for writes that others' locks have held up already: they wait for a lock a moment only, and one at a time, so
   * that they are in nobody's way.
   */
  readonly impatient: Pick<Storage, 'workflows' | 'steps' | 'messages'>;
  /** How many batches of one kind are worth writing at once. */
  readonly writeLanes: number;
  classify(error: unknown): Failure;
  now(): Promise<number>;
  changeCounter(): number | null;
  breaks(): number;
  readonly silentMessages: boolean;
  /** Tells other processes of the same database about these topics. What is lost on the way, their polls find. */
  announce(topics: readonly string[]): Promise<void>;
  /** The same statements inside a transaction of the caller's. */
  inTransaction(tx: CallerTransaction): TransactionStorage;
  /** Hears what others announce, until stopped. */
  listen(hearing: ListenerCallbacks): Listening;
  close(): Promise<void>;
}

/**
 * Storage within a transaction of the caller's: what it does is committed, and announced, with that or not at all. Nothing
 * is retried in it, and what it reads is what the transaction sees.
 */
export interface TransactionStorage extends Pick<Storage, 'workflows' | 'queues' | 'steps' | 'messages' | 'announce'> {
  /** Whether that transaction is in the database of the system tables, and its role has the rights that this takes. */
  reaches(purpose: Purpose): Promise<boolean>;
  /** Whether a transaction has begun at all, as far as that is not certain. */
  isOpen(): Promise<boolean>;
  /** Whether the workflow is seen there under this owner token. */
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
  /** Of a fork that repeats steps of another workflow: what that drew chance from, and when it began. */
  readonly seed: string | null;
  readonly beganAt: number | null;
  /** Differs between workflows that had the ID one after the other. Null: the row is older than this column. */
  readonly incarnation: string | null;
  /** What is on record of its retries (model/retries.ts); null: none. */
  readonly retries: string | null;
  /** Of one that has failed: what may have been done and is not on record (model/retries.ts); null: nothing. */
  readonly underWay: string | null;
  /** Of what was just taken from a queue: that no execution of it can have left steps behind. */
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
  /** Which of the roles it was started in. */
  readonly assumedRole: string | null;
  readonly attributes: string | null;
}

/** A workflow started by another: written only while the parent is still its owner's. */
export interface NewChild extends NewWorkflow, After {
  readonly parentWorkflowId: string;
  readonly parentOwner: string;
  /** Not reached by the parent's cancel (`timeout: null`). */
  readonly detached: boolean;
}

/** A workflow that waits on a queue until an executor takes it. */
export interface EnqueuedWorkflow extends Omit<NewWorkflow, 'owner' | 'version'>, Partial<After> {
  /** Null: whichever version is the latest when its turn comes. */
  readonly version: string | null;
  readonly appName: string | null;
  readonly queueName: string;
  readonly priority: number;
  readonly dedupId: string | null;
  readonly partition: string | null;
  /** DELAYED until then; null: ENQUEUED at once. */
  readonly delayUntil: number | null;
  readonly scheduleName: string | null;
  readonly parentWorkflowId: string | null;
  readonly parentOwner: string | null;
  readonly detached: boolean;
}

/** A call of a debouncer: starts a wait, or prolongs the one that is under way for `dedupId`. */
export interface DebouncedWorkflow extends Omit<EnqueuedWorkflow, 'parentOwner' | keyof After> {
  readonly delayUntil: number;
  readonly dedupId: string;
  /** How long the wait may last in all, from its first call; null: as long as calls go on. */
  readonly debounceTimeoutMs: number | null;
}

export interface DedupKey {
  readonly queueName: string;
  readonly dedupId: string;
}

/** The unfinished workflow that has a deduplication ID. */
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

/** How a workflow ended, if it has: what everyone who waits for it needs. */
export interface Ending {
  readonly workflowId: string;
  readonly status: WorkflowStatus;
  readonly output: string | null;
  readonly error: string | null;
  readonly serialization: string | null;
  readonly statusReason: string | null;
}

/** What a claim tells of a workflow: as much as running it takes. */
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

/** A workflow and under which token it is its owner's. */
export interface OwnedWorkflow {
  readonly workflowId: string;
  readonly owner: string;
}

/** `held`: the turn was the caller's to take work under. If not, it knows nothing of what waits. */
export interface Dequeued {
  readonly claimed: ClaimedRecord[];
  readonly held: boolean;
  /** Work of this version and of none was waiting: then more may wait than was taken, if others were taking too. */
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
   * Takes ENQUEUED workflows from a queue, in its order: a fresh owner token, one attempt more; a start, but for what comes
   * back from its rest, which has started before. What has had its attempts
   * becomes MAX_RECOVERY_ATTEMPTS_EXCEEDED and is returned as such. Workflows that this process cannot run are left alone.
   */
  dequeue(params: DequeueParams): Promise<Dequeued>;
  /** Returns the IDs of the rows that were new. What is not: the ID or deduplication ID is taken, or no such queue. */
  enqueueMany(rows: readonly EnqueuedWorkflow[]): Promise<Set<string>>;
  /**
   * All or none. Returns the IDs of the rows that were new; those that were there already, of the same workflow, count
   * as done. A taken deduplication ID is refused by the database. Nothing is new if a queue or a workflow does not fit.
   */
  enqueueAll(rows: readonly EnqueuedWorkflow[]): Promise<Set<string>>;
  /** Undefined: the key is held by something that is no debounced run of this workflow. */
  debounce(row: DebouncedWorkflow): Promise<{ readonly workflowId: string; readonly delayUntil: number } | undefined>;
  /** Who holds these deduplication IDs. */
  holders(keys: readonly DedupKey[]): Promise<(DedupKey & DedupHolder)[]>;
  /** DELAYED workflows that are due become ENQUEUED. Returns the queue of each. */
  promoteDue(params: { readonly now: number; readonly limit: number }): Promise<string[]>;
  /** When a DELAYED workflow becomes due. Returns its queue, or undefined if it is not DELAYED. */
  setDelay(params: {
    readonly workflowId: string;
    readonly delayUntil: number;
    readonly now: number;
  }): Promise<string | undefined>;
  /** Of a workflow that waits. Returns its queue, or undefined if it does not wait on one. */
  setPriority(params: {
    readonly workflowId: string;
    readonly priority: number;
    readonly now: number;
  }): Promise<string | undefined>;
  /** What a claim under this owner token has taken, if it was committed. */
  claimedUnder(params: {
    readonly owner: string;
    readonly executorId: string;
    readonly version: string;
  }): Promise<WorkflowRecord[]>;
  /** Those that are still PENDING and still this owner's. */
  owned(workflows: readonly OwnedWorkflow[]): Promise<ClaimedRecord[]>;
  /**
   * Cancels these and all their descendants but the detached ones. Returns those that changed; `onChange` learns of each
   * part of them when it is committed, also if a later part fails.
   */
  cancel(
    params: {
      readonly workflowIds: readonly string[];
      readonly reason: string | null;
      readonly now: number;
    },
    onChange?: (part: readonly CancelledWorkflow[]) => void,
  ): Promise<CancelledWorkflow[]>;
  /** IDs of unfinished workflows whose deadline has passed, running, dead or handed over. */
  expired(params: { readonly now: number; readonly limit: number }): Promise<string[]>;
  /** Which workflows were cancelled since then, by anyone. */
  cancelledSince(since: number): Promise<CancelledWorkflow[]>;
  /**
   * CANCELLED, dead-lettered and STALLED workflows, and their cancelled children, go back on their queue, or on this if their
   * queue is gone. With `moveTo` the workflows themselves, not their children, go to that queue.
   */
  resume(params: {
    readonly workflowIds: readonly string[];
    readonly queueName: string;
    readonly moveTo?: { readonly queueName: string; readonly partition: string | null };
    readonly now: number;
  }): Promise<{ readonly workflowId: string; readonly queueName: string }[]>;
  /** Hands unfinished work back: ENQUEUED, owned by nobody, the attempt given back. */
  release(params: {
    readonly owned: readonly OwnedWorkflow[];
    readonly queueName: string;
    readonly now: number;
    /** Leaves those alone that somebody has locked. */
    readonly passOverLocked?: boolean;
  }): Promise<Set<string>>;
  /**
   * Marks these as let go of while they wait: from now on they hold no slot of their queue, until they are taken from it
   * again. Returns the IDs of those that were still this owner's.
   */
  setAtRest(owned: readonly (OwnedWorkflow & After)[]): Promise<Set<string>>;
  /** Sets one aside as STALLED, its attempt given back. Returns whether it was still this owner's. */
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
  /** Null: of no app, as DBOS 4 registers it. */
  readonly appName: string | null;
  readonly createdAt: number;
  /** When it was last made the latest; the highest one is. */
  readonly latestAt: number;
}

export interface Versions {
  /** A new one becomes the latest, unless `asLatest` is false: then it comes after all that did. Returns the latest. */
  register(params: {
    readonly name: string;
    readonly appName: string;
    readonly asLatest?: boolean;
    readonly now: number;
  }): Promise<VersionRecord | undefined>;
  /** The apps of which a version was ever registered. */
  apps(): Promise<string[]>;
  /** An empty name: those of all apps. */
  list(appName: string): Promise<VersionRecord[]>;
  setLatest(params: { readonly name: string; readonly appName: string; readonly now: number }): Promise<boolean>;
}
