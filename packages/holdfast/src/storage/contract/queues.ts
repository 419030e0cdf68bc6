import type { ConflictPolicy, QueueSettings } from '../../model/queues.js';
import type { WorkflowKey } from '../../model/workflow-key.js';
import type { Claim } from './claims.js';
import type { EnqueuedWork } from './enqueued.js';

/** The contract of the table `queues`, and of the queries by which a dispatcher finds waiting and running work. */

/** A queue as stored. */
export interface QueueRecord {
  readonly name: string;
  /** The app to which the queue belongs; null: the queue belongs to every app of the database. */
  readonly appName: string | null;
  readonly settings: QueueSettings;
  readonly paused: boolean;
  /** Increases with every edit, and with every claim under a limit of the whole fleet (sql/dequeue.ts). */
  readonly lockVersion: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The part of a queue that the caller sets. */
type QueueEntry = Pick<QueueRecord, 'name' | 'settings'>;

export interface QueueCounts {
  readonly waiting: number;
  readonly running: number;
  /** PENDING workflows that are suspended and hold no slot. */
  readonly suspended: number;
  readonly delayed: number;
}

/** Tells whether work waits on a queue, and whether some of this work was tried before. */
export interface WaitingWork {
  readonly waiting: boolean;
  readonly retried: boolean;
}

/** Everything that a dispatcher needs from time to time, in one statement. */
export interface QueueOverview {
  readonly queues: readonly ({ readonly queue: QueueRecord } & WaitingWork)[];
  readonly internal: WaitingWork;
  /** The instant at which the next DELAYED workflow becomes due. */
  readonly nextDueAt: number | null;
}

/** The queues on which work waits, without their settings. `lockVersion` is null if there is no such queue. */
export interface BusyQueues {
  readonly queues: readonly { readonly name: string; readonly retried: boolean; readonly lockVersion: number | null }[];
  readonly nextDueAt: number | null;
}

/** The usage that counts against the limits of a queue, or of one of its partitions. */
export interface LimitUsage {
  readonly running: number;
  /**
   * The starts within the period of the rate limit, and the instant of the next possible start if the limit is reached.
   */
  readonly recentStarts: number;
  readonly nextStartAt: number | null;
}

interface QueueUsage extends LimitUsage {
  /** The number of running workflows that belong to other executors. */
  readonly elsewhere: number;
}

export interface PartitionUsage extends LimitUsage {
  readonly partition: string;
  /** The number of waiting workflows that the caller could take, at most `waitingUpTo`. */
  readonly waiting: number;
}

/** The rate limit to apply. The caller takes it from the settings of the queue. */
export interface RateWindow {
  readonly max: number;
  readonly since: number;
}

export interface Queues extends EnqueuedWork {
  overview(): Promise<QueueOverview>;
  /**
   * Returns the queues on which work waits. The cost grows with the number of these queues, not with the number of all
   * queues.
   */
  busy(): Promise<BusyQueues>;
  list(): Promise<QueueRecord[]>;
  /** Returns true if any work waits on the queue, for any version. The query is one probe of an index. */
  hasWaiting(name: string): Promise<boolean>;
  /** Returns queues with the number of workflows on them, ordered by name: one queue, or all for null. */
  listWithCounts(name: string | null): Promise<(QueueRecord & QueueCounts)[]>;
  /** Stores queues, or changes them according to the policy. Returns the queues as they are now. */
  register(params: {
    readonly queues: readonly QueueEntry[];
    readonly policy: ConflictPolicy;
    readonly appName: string | null;
    /** Null: the caller has no version, and its settings apply. */
    readonly version: string | null;
    readonly now: number;
  }): Promise<QueueRecord[]>;
  /** Changes the settings, the pause or both, unless another process has changed the queue since the caller read it. */
  change(params: {
    readonly queue: QueueRecord;
    readonly settings: QueueSettings;
    readonly paused: boolean;
    readonly now: number;
  }): Promise<QueueRecord | undefined>;
  /**
   * Assigns a partition key to unfinished workflows that have none, on queues with partitions. Returns whether there
   * were any. A queue that gets partitions assigns the keys itself, but at that moment other processes or SQL clients
   * may enqueue workflows without a key.
   */
  assignPartitionKeys(names: readonly string[]): Promise<boolean>;
  /** Deletes a queue if no unfinished workflow is on it. Returns whether the queue was deleted. */
  remove(name: string): Promise<boolean>;
  /** Returns the number of unfinished workflows on a queue. */
  unfinished(name: string): Promise<number>;
  /**
   * Returns the queue as it is now, whether work waits on it, and the usage that counts against its limits, in one
   * snapshot.
   */
  usage(params: {
    readonly name: string;
    readonly executorId: string;
    readonly rate: RateWindow | null;
  }): Promise<{ readonly queue: QueueRecord; readonly waiting: boolean; readonly usage: QueueUsage } | undefined>;
  /** Returns the partitions with waiting work, ordered by key, starting behind the key `after`. */
  partitions(
    params: Pick<Claim, 'writer' | 'version' | 'runnable'> & {
      readonly queueName: string;
      readonly after: string;
      readonly limit: number;
      readonly waitingUpTo: number;
      readonly rate: RateWindow | null;
      readonly suspects: boolean;
    },
  ): Promise<PartitionUsage[]>;
  /** Returns the names of queues that do not exist but on which work of this app waits, with one workflow for each. */
  onUnknownQueues(appName: string): Promise<{ readonly queueName: string; readonly workflowId: string }[]>;
  /** Returns the work on a queue that this process cannot take, by workflow and version. Used for a warning. */
  unclaimable(
    params: Pick<Claim, 'writer' | 'version' | 'runnable'> & { readonly queueName: string },
  ): Promise<(WorkflowKey & { readonly version: string | null; readonly workflowId: string })[]>;
}
