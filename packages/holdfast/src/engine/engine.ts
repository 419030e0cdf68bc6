import type { Codecs } from '../codec/codec.js';
import type { Clock } from '../model/clock.js';
import type { HoldfastError } from '../model/errors.js';
import type { OwnerTokens } from '../model/ids.js';
import type { Logger } from '../model/logger.js';
import type {
  Claim,
  ClaimedRecord,
  Ending,
  OwnedWorkflow,
  StepRecord,
  Storage,
  Writer,
} from '../storage/contract/storage.js';
import type { WorkflowDefinition } from './api/definition.js';
import type { Macrotasks } from './execution/deliveries.js';
import type { QueueCache } from './queue/queue-cache.js';
import type { QueueLoad } from './queue/queue-load.js';
import type { Registry } from './registry.js';
import type { StartGate } from './start-gate.js';
import type { CompletionWaiters } from './wait/completion-waiters.js';
import type { News } from './wait/news.js';
import type { Watches } from './wait/watches.js';
import type { Checkpoints, Superseded } from './write/checkpoints.js';
import type { EnqueueWriter } from './write/enqueue-writer.js';
import type { MessageWriter } from './write/message-writer.js';

/**
 * What the parts of an engine use of each other. Each app has its own; nothing is shared between two apps of a
 * process but the database, if they share that. `runtime.ts` implements it.
 */
export interface Engine {
  /** The app it belongs to, as `StartOptions.app` names it. */
  app: object | undefined;
  readonly writer: Writer;
  /** Empty for a client, which runs nothing: what it enqueues is for the latest version. */
  readonly version: string;
  readonly owners: OwnerTokens;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly codecs: Codecs;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly checkpoints: Checkpoints;
  readonly enqueueWriter: EnqueueWriter;
  readonly queueCache: QueueCache;
  readonly news: News;
  /** Whether this process takes work from the queue. A client takes none. */
  worksOn(queueName: string): boolean;
  /** The queues that it takes work from; null: all. */
  readonly listens: readonly string[] | null;
  /** The incarnations of the other living executors of this app and version that work on the queue, as far as is known. */
  peersOn(queueName: string): readonly string[];
  readonly queueLoad: QueueLoad;
  /** How many executions have something to do, and do not only wait. */
  readonly busy: number;
  /** Whether a step may begin here at the moment. */
  readonly startGate: StartGate;
  /** The versions of the app that some process runs which is not known to be dead, by a look at this moment. */
  versionsAlive(): Promise<ReadonlySet<string>>;
  /** Runs what the statement claims, at most `limit` workflows, on the terms it is given. */
  readonly claims: {
    take(limit: number, statement: (claim: Claim) => Promise<ClaimedRecord[]>): Promise<ClaimedRecord[]>;
    /** Runs what lost claims turn out to have taken. */
    readBack(): Promise<void>;
    readonly areCertain: boolean;
    /** Waits until a claim is tried again that another process was ahead of. */
    pause(ms: number): Promise<void>;
    /** Whether it is on its way into memory: claimed, or perhaps claimed, and not run yet. */
    isLoading(workflow: OwnedWorkflow): boolean;
  };
  readonly completionWaiters: CompletionWaiters;
  readonly watches: Watches;
  readonly messageWriter: MessageWriter;
  readonly macrotasks: Macrotasks;
  /** Runs a workflow that this process has just started or claimed. */
  run(claimed: ClaimedWorkflow): void;
  /** A typed error when the app was shut down. */
  checkOpen(): void;
  /** False as soon as it is being shut down. */
  readonly isOpen: boolean;
  /** The outcome of an execution is committed. Returns whether anyone here was waiting for it. */
  finished(ending: Ending, owner: string): boolean;
  /** A write showed that the workflow is no longer this execution's. */
  superseded(workflowId: string, owner: string, by: Superseded): void;
  /** Sets a workflow aside whose code does not match its record. */
  stall(workflowId: string, owner: string, error: HoldfastError): Promise<void>;
  /**
   * Repeats a statement until the database answers or the app closes. `failsFast`, for a caller outside of workflows: except
   * where the role lacks a right, or a table is missing.
   */
  untilAnswered<T>(what: string, statement: () => Promise<T>, failsFast?: boolean): Promise<T | undefined>;
  /** Logs a warning, unless one about the same thing has been logged before. */
  warnOnce(about: string, message: string | (() => string | undefined)): void;
  /** Cancels workflows and their children, here and in the database. */
  cancel(workflowIds: readonly string[], reason: string | null): Promise<void>;
}

/** A workflow that is this process's to run: the same for every execution of it but for `owner` and `attempt`. */
export interface ClaimedWorkflow {
  readonly workflowId: string;
  readonly name: string;
  readonly owner: string;
  readonly attempt: number;
  readonly createdAt: number;
  /** Tells it from others that had the ID before. */
  readonly incarnation: string | null;
  /** Of a fork that repeats steps of another workflow: what that drew chance from, and when it began. */
  readonly seed: string | null;
  readonly beganAt: number | null;
  /** What is on record of its retries (model/retries.ts). */
  readonly retries: string | null;
  readonly deadlineAt: number | null;
  readonly inputs: string | null;
  readonly serialization: string | null;
  readonly user: string | null;
  readonly roles: string | null;
  readonly assumedRole: string | null;
  readonly attributes: string | null;
  readonly parentWorkflowId: string | null;
  readonly queueName: string | null;
  readonly partition: string | null;
  readonly definition: WorkflowDefinition;
  /** Arguments at hand from the call; a recovered workflow reads them from `inputs`. */
  readonly args?: readonly unknown[] | undefined;
  /** Steps of earlier executions; absent for a first run, which knows that there are none. */
  readonly recorded?: readonly StepRecord[];
}
