import type { ConflictPolicy, QueueSettings } from '../../model/queues.js';
import type { WorkflowKey } from '../../model/workflow-key.js';
import type { Claim } from './claims.js';

/** The contract of the table `queues`, and of what a dispatcher asks about waiting and running work. */

/** A queue as stored. */
export interface QueueRecord {
  readonly name: string;
  /** The app it belongs to; null: to every app of the database. */
  readonly appName: string | null;
  readonly settings: QueueSettings;
  readonly paused: boolean;
  /** Moves on with every edit, and with every claim under a limit of the whole fleet (sql/dequeue.ts). */
  readonly lockVersion: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What is to be stored of a queue. */
type QueueEntry = Pick<QueueRecord, 'name' | 'settings'>;

export interface QueueCounts {
  readonly waiting: number;
  readonly running: number;
  /** PENDING, but let go of while they wait: they hold no slot. */
  readonly suspended: number;
  readonly delayed: number;
}

/** Whether work waits on a queue, and whether some of it has been tried before. */
export interface WaitingWork {
  readonly waiting: boolean;
  readonly retried: boolean;
}

/** Everything that a dispatcher looks at from time to time, in one statement. */
export interface QueueOverview {
  readonly queues: readonly ({ readonly queue: QueueRecord } & WaitingWork)[];
  readonly internal: WaitingWork;
  /** When the next DELAYED workflow becomes due. */
  readonly nextDueAt: number | null;
}

/** The same without the settings, and of those queues alone on which work waits. `lockVersion`: null if there is no such queue. */
export interface BusyQueues {
  readonly queues: readonly { readonly name: string; readonly retried: boolean; readonly lockVersion: number | null }[];
  readonly nextDueAt: number | null;
}

/** What counts against the limits of a queue, or of one partition of it. */
export interface LimitUsage {
  readonly running: number;
  /** Starts within the period of the rate limit, and when the next one becomes possible if they fill it. */
  readonly recentStarts: number;
  readonly nextStartAt: number | null;
}

interface QueueUsage extends LimitUsage {
  /** How many of those that run are not the caller's. */
  readonly elsewhere: number;
}

export interface PartitionUsage extends LimitUsage {
  readonly partition: string;
  /** How many wait that the caller could take, up to what was asked for. */
  readonly waiting: number;
}

/** The rate limit to measure by; the caller knows it from the queue's settings. */
export interface RateWindow {
  readonly max: number;
  readonly since: number;
}

export interface Queues {
  overview(): Promise<QueueOverview>;
  /** What this costs grows with the queues on which work waits, not with those that there are. */
  busy(): Promise<BusyQueues>;
  list(): Promise<QueueRecord[]>;
  /** Whether any work waits on the queue, for whichever version: one probe of an index. */
  waits(name: string): Promise<boolean>;
  /** Queues with what is on them, in the order of their names: this one, or all. */
  counted(name: string | null): Promise<(QueueRecord & QueueCounts)[]>;
  /** Stores queues, or changes them as the policy says. Returns them as they are now. */
  register(params: {
    readonly queues: readonly QueueEntry[];
    readonly policy: ConflictPolicy;
    readonly appName: string | null;
    /** Null: a caller that has no version, whose settings count. */
    readonly version: string | null;
    readonly now: number;
  }): Promise<QueueRecord[]>;
  /** Changes settings, pause or both, if nobody else has since the queue was read. */
  change(params: {
    readonly queue: QueueRecord;
    readonly settings: QueueSettings;
    readonly paused: boolean;
    readonly now: number;
  }): Promise<QueueRecord | undefined>;
  /**
   * Gives a key to unfinished workflows on queues with partitions that have none. Returns whether there were any. A
   * queue that gets partitions does so by itself; others may have enqueued without one at that moment, or in SQL.
   */
  giveKeys(names: readonly string[]): Promise<boolean>;
  /** Removes a queue that no unfinished workflow is on. Returns whether it did. */
  remove(name: string): Promise<boolean>;
  /** How many unfinished workflows are on a queue. */
  unfinished(name: string): Promise<number>;
  /** The queue as it is now, whether anything waits on it, and what counts against its limits, in one snapshot. */
  usage(params: {
    readonly name: string;
    readonly executorId: string;
    readonly rate: RateWindow | null;
  }): Promise<{ readonly queue: QueueRecord; readonly waiting: boolean; readonly usage: QueueUsage } | undefined>;
  /** Partitions with waiting work, in the order of their keys, from behind this key on. */
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
  /** Names of queues that do not exist and that work of this app waits on all the same, with one workflow each. */
  stray(appName: string): Promise<{ readonly queueName: string; readonly workflowId: string }[]>;
  /** What waits on a queue and cannot be taken by this process, by workflow and version: for a warning. */
  unclaimable(
    params: Pick<Claim, 'writer' | 'version' | 'runnable'> & { readonly queueName: string },
  ): Promise<(WorkflowKey & { readonly version: string | null; readonly workflowId: string })[]>;
}
