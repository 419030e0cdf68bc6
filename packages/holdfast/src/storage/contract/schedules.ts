/** The contract of the table `workflow_schedules`. */

/** A schedule as stored. `context` is still text; instants are epoch milliseconds. */
export interface ScheduleRecord {
  readonly name: string;
  /** The app to which the schedule belongs; null: the schedule belongs to every app of the database. */
  readonly appName: string | null;
  readonly workflowName: string;
  /** The class, if the workflow is a static method. */
  readonly className: string | null;
  readonly cron: string;
  /** An IANA time zone; null: UTC. */
  readonly timezone: string | null;
  readonly context: string;
  readonly status: 'ACTIVE' | 'PAUSED';
  readonly queueName: string | null;
  readonly catchUp: 'skip' | 'one' | 'all';
  /**
   * The maximum number of missed ticks that are run. Null: the schedule was created by a program that does not know
   * this limit.
   */
  readonly catchUpLimit: number | null;
  /** The last tick that was run. */
  readonly lastFiredAt: number | null;
  /**
   * The instant at which the schedule was created, was resumed or got another cron. Ticks up to this instant are not
   * run.
   */
  readonly activeSince: number | null;
}

/** The part of a schedule that a person sets. */
export type ScheduleSettings = Omit<ScheduleRecord, 'appName' | 'status' | 'lastFiredAt' | 'activeSince'>;

/** One run of a schedule. */
export interface ScheduledRun {
  readonly workflowId: string;
  readonly inputs: string;
  readonly serialization: string;
  readonly timeoutMs: number | null;
}

/**
 * Identifies a schedule as an app sees it. An app with a name does not see the schedules of another app. Schedule names
 * are unique in a database, across all apps.
 */
export interface ScheduleKey {
  readonly name: string;
  readonly appName: string | null;
}

export interface Schedules {
  /** Returns the schedules of this app and those that belong to no app. Null: returns all schedules. */
  list(appName: string | null): Promise<ScheduleRecord[]>;
  /** Returns undefined if the name is taken. */
  create(params: {
    readonly settings: ScheduleSettings;
    readonly appName: string | null;
    readonly now: number;
  }): Promise<ScheduleRecord | undefined>;
  /**
   * Creates schedules, or changes what differs, all or none. Pause and last tick stay unchanged. With a version, an
   * existing schedule is changed only if this version is the latest of the app. A schedule of another app is not
   * changed; a schedule of no app becomes a schedule of this app. `activeSince` changes only together with the cron or
   * its time zone.
   */
  apply(params: {
    readonly settings: readonly ScheduleSettings[];
    readonly appName: string | null;
    readonly version: string | null;
    readonly now: number;
  }): Promise<void>;
  /**
   * Changes the given settings and keeps the others; `activeSince` changes as in `apply`. Returns undefined if there is
   * no such schedule.
   */
  change(
    params: ScheduleKey & { readonly changes: Partial<Omit<ScheduleSettings, 'name'>>; readonly now: number },
  ): Promise<ScheduleRecord | undefined>;
  /**
   * Returns undefined if there is no such schedule. When a schedule becomes ACTIVE, `activeSince` changes: ticks during
   * a pause do not count as missed.
   */
  setStatus(
    params: ScheduleKey & { readonly status: ScheduleRecord['status']; readonly now: number },
  ): Promise<ScheduleRecord | undefined>;
  /** Returns true if the schedule existed. */
  remove(key: ScheduleKey): Promise<boolean>;
  /**
   * Enqueues runs, all or none. The runs are enqueued only if the schedule still has this workflow, cron, time zone and
   * context. The schedule must also be ACTIVE (unless `evenIfPaused` is true), and its queue must exist. Therefore a
   * schedule that was read before a committed change or removal starts no runs after it. Runs whose ID is taken stay
   * unchanged. Returns the IDs of the new runs.
   */
  fire(params: {
    readonly schedule: ScheduleRecord;
    readonly runs: readonly ScheduledRun[];
    readonly evenIfPaused: boolean;
    readonly now: number;
  }): Promise<Set<string>>;
  /** Returns those of the IDs that are taken. */
  taken(workflowIds: readonly string[]): Promise<Set<string>>;
  /** Records the last tick that was run. The recorded instant never decreases. */
  markFired(params: { readonly name: string; readonly scheduledAt: number }): Promise<void>;
}
