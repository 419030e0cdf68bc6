import type { CallerTransaction, Purpose } from '../caller/transaction.js';
import type { Deletions } from './deletions.js';
import type { Executors } from './executors.js';
import type { Failure } from './failure-kind.js';
import type { Forks } from './forks.js';
import type { ListenerCallbacks, Listening } from './listening.js';
import type { Events, Messages, Streams } from './messaging.js';
import type { Queues } from './queues.js';
import type { Retries } from './retries.js';
import type { Schedules } from './schedules.js';
import type { Steps } from './steps.js';
import type { Takeovers } from './takeovers.js';
import type { Versions } from './versions.js';
import type { Workflows } from './workflows.js';

export type { CancelledWorkflow } from './cancelled.js';
export type { Claim, DequeueParams, Portion, Runnable, Writer } from './claims.js';
export type {
  DebouncedWorkflow,
  DedupHolder,
  DedupKey,
  Dequeued,
  EnqueuedWorkflow,
} from './enqueued.js';
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
export type { VersionRecord, Versions } from './versions.js';
export type {
  ClaimedRecord,
  Ending,
  FinishedWorkflow,
  NewChild,
  NewWorkflow,
  OwnedWorkflow,
  WorkflowFilter,
  WorkflowRecord,
  Workflows,
} from './workflows.js';

/**
 * The storage contract, by noun. One implementation (`sql/`) serves both databases; one test suite checks the contract
 * on each database.
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
  readonly impatient: Pick<Storage, 'workflows' | 'queues' | 'steps' | 'messages'>;
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
