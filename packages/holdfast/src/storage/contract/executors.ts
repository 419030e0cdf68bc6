/** Who runs work in a database, and what is known of their lives. */

/** A process that runs workflows. One `launch()` is one incarnation: an executor that restarts under its ID is another. */
export interface NewExecutor {
  /** What all its owner tokens begin with (model/ids.ts): tells what it owns from what its predecessor left behind. */
  readonly incarnation: string;
  readonly executorId: string;
  readonly appName: string;
  readonly version: string;
  readonly host: string;
  readonly pid: number;
  /** When the process started, as its host tells it; null where it does not. Tells a reused pid from the first. */
  readonly processStart: string | null;
  /** How long it may be silent until others take it for dead. It fences itself before that. */
  readonly ttlMs: number;
  /** Of the session lock that it holds as long as it lives; null: it has none, its heartbeat alone counts. */
  readonly lockKey: string | null;
  /** The queues that it works on; null: all. An executor of an older release does not say, and counts as working on all. */
  readonly listens: readonly string[] | null;
}

export interface ExecutorRecord extends NewExecutor {
  readonly startedAt: number;
  /** On the database's clock: for people. Who decides on life and death counts `beats`. */
  readonly heartbeatAt: number;
  /** Grows with each heartbeat. That it has not grown while one looked is what silence is, whatever clocks say. */
  readonly beats: number;
  /** Whether its session lock is held at this moment; null: it has none. */
  readonly present: boolean | null;
}

/** The table `executors`. */
export interface Executors {
  /** Returns the number of its heartbeats, of which this counts as one. */
  join(executor: NewExecutor): Promise<number>;
  /**
   * How often others have taken work from it so far, and the number of this heartbeat. Undefined: it is no longer in the
   * table, because they took it for dead and all it had, or because the database has gone back to a time before it joined.
   *
   * `known` is a number that was answered before. One that is on record is not lower, unless the database has gone back in
   * time: then it stays as it is and is returned, however often it is asked for.
   */
  beat(
    incarnation: string,
    change?: Partial<Pick<NewExecutor, 'lockKey' | 'ttlMs'>> & { readonly known?: number },
  ): Promise<{ readonly takeovers: number; readonly beats: number } | undefined>;
  /** The same without a heartbeat. */
  takeovers(incarnation: string): Promise<number | undefined>;
  /** Tells these, by their next heartbeat, that work was taken from them: null stands for all under the ID. */
  tellOfTakeover(from: readonly { readonly executorId: string; readonly incarnation: string | null }[]): Promise<void>;
  leave(incarnation: string): Promise<void>;
  /** All of an application, in one statement. */
  list(appName: string): Promise<ExecutorRecord[]>;
  /**
   * Forgets those that are dead and own nothing PENDING any more; not one that has beaten more often than whoever took it
   * for dead has seen.
   */
  bury(dead: readonly { readonly incarnation: string; readonly beats: number }[]): Promise<void>;
}
