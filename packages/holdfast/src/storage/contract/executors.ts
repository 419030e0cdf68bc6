/** The executors that run work in a database, and what is known about their liveness. */

/**
 * A process that runs workflows. Each `launch()` is one incarnation: an executor that restarts under the same ID is a
 * new incarnation.
 */
export interface NewExecutor {
  /**
   * The prefix of all its owner tokens (model/ids.ts). The prefix separates the work of this incarnation from the work
   * that its predecessor left behind.
   */
  readonly incarnation: string;
  readonly executorId: string;
  readonly appName: string;
  readonly version: string;
  readonly host: string;
  readonly pid: number;
  /**
   * The start time of the process, as its host reports it; null if the host does not report it. A reused pid has
   * another start time.
   */
  readonly processStart: string | null;
  /**
   * How long heartbeats may be missing before other executors consider this executor dead. The executor fences itself
   * before that.
   */
  readonly ttlMs: number;
  /**
   * The key of the session lock that the executor holds while it lives. Null: there is no lock, only the heartbeat
   * counts.
   */
  readonly lockKey: string | null;
  /**
   * The queues that the executor works on; null: all queues. An executor of an older release does not write this column
   * and counts as working on all queues.
   */
  readonly listens: readonly string[] | null;
}

export interface ExecutorRecord extends NewExecutor {
  readonly startedAt: number;
  /** On the database's clock, for people to read. Decisions about liveness use `beats`. */
  readonly heartbeatAt: number;
  /**
   * Increases with every heartbeat. An observer considers the executor silent if `beats` has not increased while the
   * observer watched. No clocks are compared.
   */
  readonly beats: number;
  /** True: the session lock of the executor is held at this moment. Null: the executor has no lock. */
  readonly present: boolean | null;
}

/** The table `executors`. */
export interface Executors {
  /** Returns the heartbeat count, which includes this call. */
  join(executor: NewExecutor): Promise<number>;
  /**
   * Sends a heartbeat. Returns the number of times that others have taken work from this executor, and the number of
   * this heartbeat. Undefined: the executor is no longer in the table. Either other executors considered it dead and
   * took all its work, or the database was restored to a time before the executor joined.
   *
   * `known` is a heartbeat number that an earlier call returned. The stored number is lower only if the database was
   * restored to an earlier time. In this case the stored number does not increase, and every call returns it unchanged.
   */
  beat(
    incarnation: string,
    change?: Partial<Pick<NewExecutor, 'lockKey' | 'ttlMs'>> & { readonly known?: number },
  ): Promise<{ readonly takeovers: number; readonly beats: number } | undefined>;
  /** Returns the number of takeovers, as `beat` does, without a heartbeat. */
  takeovers(incarnation: string): Promise<number | undefined>;
  /**
   * Records that work was taken from these executors. They learn about it from their next heartbeat. A null
   * `incarnation` stands for all incarnations under the executor ID.
   */
  recordTakeover(from: readonly { readonly executorId: string; readonly incarnation: string | null }[]): Promise<void>;
  leave(incarnation: string): Promise<void>;
  /** Returns all executors of an app, in one statement. */
  list(appName: string): Promise<ExecutorRecord[]>;
  /**
   * Removes dead executors that own no PENDING work. An executor stays if it has sent more heartbeats than `beats`, the
   * number seen by the process that considered it dead.
   */
  forget(dead: readonly { readonly incarnation: string; readonly beats: number }[]): Promise<void>;
}
