/** The terms on which an executor takes work. */

/** The process on whose behalf rows are written. */
export interface Writer {
  readonly executorId: string;
  readonly appName: string;
}

/** A workflow that this process can run, and how often it may be tried. */
export interface Runnable {
  readonly name: string;
  /** Of a method; absent or null for a plain function. */
  readonly className?: string | null;
  /** Of an instance's method. */
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

/** How many workflows to take from one partition, or (`partition` null) from the whole queue. */
export interface Portion {
  readonly partition: string | null;
  readonly n: number;
}

export interface DequeueParams extends Omit<Claim, 'limit'> {
  readonly queueName: string;
  readonly portions: readonly Portion[];
  /** Each portion from its partition. */
  readonly byPartition: boolean;
  /**
   * The turn of the queue that the caller knows; nothing is taken if the queue has moved on since, is paused or gone.
   * Null for the internal queue, which has no settings.
   */
  readonly lockVersion: number | null;
  /** Takes the turn, so that what others have counted or planned since becomes void. For limits of the whole fleet. */
  readonly exclusive: boolean;
  /** These starts count for a rate limit. */
  readonly rateLimited: boolean;
  /** First come, first served, whatever the priorities. */
  readonly firstCome?: boolean;
  /** Only what has used up half of its attempts, or only the rest. */
  readonly suspects: boolean;
}
