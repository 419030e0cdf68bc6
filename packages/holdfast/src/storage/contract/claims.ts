/** The conditions under which an executor takes work. */

/** The process for which rows are written. */
export interface Writer {
  readonly executorId: string;
  readonly appName: string;
}

/** A workflow that this process can run, and how often the workflow may be tried. */
export interface Runnable {
  readonly name: string;
  /** The class of a method; absent or null for a plain function. */
  readonly className?: string | null;
  /** The name of the instance, for a method of an instance. */
  readonly configName?: string | null;
  readonly maxRecoveryAttempts: number;
}

export interface Claim {
  readonly writer: Writer;
  readonly owner: string;
  readonly version: string;
  readonly runnable: readonly Runnable[];
  readonly now: number;
  readonly limit: number;
}

/** How many workflows to take from one partition, or from the whole queue if `partition` is null. */
export interface Portion {
  readonly partition: string | null;
  readonly n: number;
}

export interface DequeueParams extends Omit<Claim, 'limit'> {
  readonly queueName: string;
  readonly portions: readonly Portion[];
  /** True: each portion is taken from its own partition. */
  readonly byPartition: boolean;
  /**
   * The lock version of the queue that the caller has read. Nothing is taken if the lock version has changed since
   * then, or if the queue is paused or deleted. Null for the internal queue, which has no settings.
   */
  readonly lockVersion: number | null;
  /**
   * True: the claim increments the lock version, which invalidates the counts that other processes have read. Needed
   * for limits of the whole fleet.
   */
  readonly exclusive: boolean;
  /** True: these starts count against a rate limit. */
  readonly rateLimited: boolean;
  /** True: workflows are taken in the order of their arrival, whatever their priorities. */
  readonly firstCome?: boolean;
  /** True: takes only workflows that have used up half of their attempts. False: takes only the others. */
  readonly suspects: boolean;
}
