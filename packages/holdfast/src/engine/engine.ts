import type { Codecs } from '../codec/codecs.js';
import type { Clock } from '../model/clock.js';
import type { Emitter } from '../model/emitter.js';
import type { HoldfastError } from '../model/errors.js';
import type { OwnerTokens } from '../model/ids.js';
import type { Logger } from '../model/logger.js';
import type {
  CancelledWorkflow,
  Claim,
  ClaimedRecord,
  Ending,
  OwnedWorkflow,
  StepRecord,
  Storage,
  Writer,
} from '../storage/contract/storage.js';
import type { WorkflowDefinition } from './api/definition.js';
import type { EngineEvents } from './events.js';
import type { Macrotasks } from './execution/deliveries.js';
import type { Lifecycle } from './lifecycle.js';
import type { QueueCache } from './queue/queue-cache.js';
import type { SlotsInUse } from './queue/slots-in-use.js';
import type { Registry } from './registry.js';
import type { StartGate } from './start-gate.js';
import type { CompletionWaiters } from './wait/completion-waiters.js';
import type { News } from './wait/news.js';
import type { Watches } from './wait/watches.js';
import type { Checkpoints } from './write/checkpoints.js';
import type { Superseded } from './write/confirm-writes.js';
import type { EnqueueWriter } from './write/enqueue-writer.js';
import type { MessageWriter } from './write/message-writer.js';

/**
 * The interface through which the parts of an engine use each other. `runtime.ts` implements it. Each app has its own
 * engine. Two apps of one process share at most the database.
 */
export interface Engine {
  /** The app that owns this engine: the object that the option `StartOptions.app` accepts. */
  app: object | undefined;
  readonly writer: Writer;
  /** Empty for a client. A client runs nothing, and the workflows that it enqueues are for the latest version. */
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
  /** True if this process takes work from the queue. A client takes none. */
  worksOn(queueName: string): boolean;
  /** Names of the queues that this process takes work from; null: all queues. */
  readonly listens: readonly string[] | null;
  readonly slotsInUse: SlotsInUse;
  /** Decides if a step may start in this process at the moment. */
  readonly startGate: StartGate;
  /** Gives the statement the terms of a claim, and runs the workflows that the statement claims: at most `limit`. */
  readonly claims: {
    claimAndRun(limit: number, statement: (claim: Claim) => Promise<ClaimedRecord[]>): Promise<ClaimedRecord[]>;
    /** Runs the workflows of committed claims whose answers were lost. */
    readBack(): Promise<void>;
    readonly areSettled: boolean;
    /** Waits before the retry of a claim, because another process claimed first. */
    pause(ms: number): Promise<void>;
    /** True if the workflow is claimed, or perhaps claimed, but is not in memory yet. */
    isLoading(workflow: OwnedWorkflow): boolean;
    /** Runs a claimed workflow again, later, because of this problem. */
    retryLater(workflow: ClaimedWorkflow, problem: string, error: unknown): void;
  };
  readonly completionWaiters: CompletionWaiters;
  readonly watches: Watches;
  readonly messageWriter: MessageWriter;
  readonly macrotasks: Macrotasks;
  readonly lifecycle: Lifecycle;
  readonly events: Emitter<EngineEvents>;
  /** The workflows that run in this process (executions.ts). */
  readonly executions: {
    /** Runs a workflow that this process has just started, claimed or reloaded. */
    run(claimed: ClaimedWorkflow): void;
    /** Handles the committed outcome of an execution. Returns true if a caller in this process waited for it. */
    finish(ending: Ending, owner: string): boolean;
    /** Handles a write that changed nothing because this execution no longer owns the workflow. */
    supersede(workflowId: string, owner: string, by: Superseded): void;
    /** Sets a workflow to STALLED because its code does not match its history. */
    stall(workflowId: string, owner: string, error: HoldfastError): Promise<void>;
    /** Ends the execution of a cancelled workflow. Returns false if the workflow runs here under another token. */
    cancel(workflowId: string, owner: string | null, reason: string | null): boolean;
    has(workflowId: string): boolean;
    /** True if the workflow runs here under this owner token. */
    owns(workflow: OwnedWorkflow): boolean;
    /** Number of workflows that run here, in memory or suspended. */
    readonly size: number;
    /** Number of executions that have something to do. Executions that only wait do not count. */
    readonly busyCount: number;
  };
  /** Cancels workflows (cancellations.ts). */
  readonly cancellations: {
    /** Cancels workflows and their children, in the database and in this process. */
    cancel(workflowIds: readonly string[], reason: string | null): Promise<void>;
    /** Handles a cancellation, by this process or another. */
    handle(cancelled: CancelledWorkflow): void;
    /** Returns true, once, if this workflow was cancelled before it could run. */
    takeUnstarted(workflow: OwnedWorkflow): boolean;
    /** Cancels a workflow whose deadline has passed. */
    expire(workflowId: string): Promise<void>;
    /** Cancels a workflow whose deadline passed before it could run. */
    expireUnstarted(workflow: OwnedWorkflow): Promise<void>;
    /** Notes that a workflow left this process, perhaps because of a cancellation whose answer arrives later. */
    noteEnded(workflow: OwnedWorkflow): void;
  };
  /**
   * Retries a statement until the database answers or the app closes. With `failsFast`, for callers outside of
   * workflows, the promise rejects if the role lacks a right or a table is missing.
   */
  untilAnswered<T>(what: string, statement: () => Promise<T>, failsFast?: boolean): Promise<T | undefined>;
  /** Logs a warning, unless an earlier warning had the same key `about`. */
  warnOnce(about: string, message: string | (() => string | undefined)): void;
}

/**
 * A workflow that this process has started or claimed and must run. Only `owner` and `attempt` differ between the
 * executions of one workflow.
 */
export interface ClaimedWorkflow {
  readonly workflowId: string;
  readonly name: string;
  readonly owner: string;
  readonly attempt: number;
  readonly createdAt: number;
  /** Distinguishes the workflow from earlier, deleted workflows with the same ID. */
  readonly incarnation: string | null;
  /** For a fork that replays steps of another workflow: the seed of its random numbers, and its start. */
  readonly seed: string | null;
  readonly beganAt: number | null;
  /** The recorded retries of the workflow (model/retries.ts). */
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
  /** The arguments, if the call was made in this process. Otherwise they are decoded from `inputs`. */
  readonly args?: readonly unknown[] | undefined;
  /** Steps of earlier executions. Absent for a first run, which has no history. */
  readonly recorded?: readonly StepRecord[];
}
