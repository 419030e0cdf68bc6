/** The contract of the table `workflow_schedules`. */

/** A schedule as stored. `context` is still text; instants are epoch milliseconds. */
export interface ScheduleRecord {
  readonly name: string;
  /** The app it belongs to; null: to every app of the database. */
  readonly appName: string | null;
  readonly workflowName: string;
  /** Of a static method. */
  readonly className: string | null;
  readonly cron: string;
  /** IANA; null: UTC. */
  readonly timezone: string | null;
  readonly context: string;
  readonly status: 'ACTIVE' | 'PAUSED';
  readonly queueName: string | null;
  readonly catchUp: 'skip' | 'one' | 'all';
  /** How many missed ticks are run at most; null: it was made by someone who knows no such bound. */
  readonly catchUpLimit: number | null;
  /** The last tick that was run. */
  readonly lastFiredAt: number | null;
  /** Ticks up to here are nobody's: it was created, resumed or given another cron then. */
  readonly activeSince: number | null;
}

/** What a person sets of a schedule. */
export type ScheduleSettings = Omit<ScheduleRecord, 'appName' | 'status' | 'lastFiredAt' | 'activeSince'>;

/** One run of a schedule. */
export interface ScheduledRun {
  readonly workflowId: string;
  readonly inputs: string;
  readonly serialization: string;
  readonly timeoutMs: number | null;
}

/**
 * Which schedule, as an app sees it: another app's is none, for one that has a name. A name is given once in a database,
 * though, whoever has it.
 */
export interface ScheduleKey {
  readonly name: string;
  readonly appName: string | null;
}

export interface Schedules {
  /** Those of this app and those that belong to none; all of them for null. */
  list(appName: string | null): Promise<ScheduleRecord[]>;
  /** Undefined: the name is taken. */
  create(params: {
    readonly settings: ScheduleSettings;
    readonly appName: string | null;
    readonly now: number;
  }): Promise<ScheduleRecord | undefined>;
  /**
   * Creates, or changes what differs, all or none; pause and last tick stay. With a version, an existing schedule is
   * changed only if that is the latest one of the app. Another app's schedule stays as it is; one that is nobody's
   * becomes this app's. `activeSince` moves only with the cron or its time zone.
   */
  apply(params: {
    readonly settings: readonly ScheduleSettings[];
    readonly appName: string | null;
    readonly version: string | null;
    readonly now: number;
  }): Promise<void>;
  /** Changes what is given and leaves the rest; `activeSince` as in `apply`. Undefined: no such schedule. */
  change(
    params: ScheduleKey & { readonly changes: Partial<Omit<ScheduleSettings, 'name'>>; readonly now: number },
  ): Promise<ScheduleRecord | undefined>;
  /** Undefined: no such schedule. Becoming ACTIVE moves `activeSince`: ticks of a pause are not missed ones. */
  setStatus(
    params: ScheduleKey & { readonly status: ScheduleRecord['status']; readonly now: number },
  ): Promise<ScheduleRecord | undefined>;
  /** Returns whether there was one. */
  remove(key: ScheduleKey): Promise<boolean>;
  /**
   * Enqueues runs, all or none, if the schedule still has this workflow, cron, time zone and context, is ACTIVE (or
   * `evenIfPaused`), and its queue exists. Once a change or removal is committed, what was read before it fires nothing
   * any more. Runs whose ID is taken stay as they are. Returns the IDs of those that are new.
   */
  fire(params: {
    readonly schedule: ScheduleRecord;
    readonly runs: readonly ScheduledRun[];
    readonly evenIfPaused: boolean;
    readonly now: number;
  }): Promise<Set<string>>;
  /** Which of these IDs are taken. */
  taken(workflowIds: readonly string[]): Promise<Set<string>>;
  /** Notes the last tick; never goes back. */
  markFired(params: { readonly name: string; readonly scheduledAt: number }): Promise<void>;
}
