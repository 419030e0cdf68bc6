/**
 * Decides if this process may start steps and take work. Other executors presume an executor dead after a time to live
 * without heartbeats, and then run its work. Therefore an executor whose heartbeats are not confirmed stops starting
 * steps before that time. Replays, reads and writes continue: a write that comes too late finds another owner.
 *
 * Starts and claims wait too. Other executors delete the record of an executor that was silent for long. If such an
 * executor took work and died before its next heartbeat, recovery would not know the owner of this work.
 *
 * The gate is read before each attempt of a step and each statement that takes work. The gate reads the clock, and not
 * a flag that a timer sets. After a pause of the process (SIGSTOP, a blocked event loop), answers from the database,
 * and the steps that follow from them, run before any timer.
 */
export class StartGate {
  private monotonic: () => number = () => 0;
  /** Infinite until `followClock`: a client sends no heartbeats and owns no work that it could lose. */
  private until = Number.POSITIVE_INFINITY;
  private readonly openWaiters = new Set<() => void>();
  private readonly confirmationWaiters = new Set<() => void>();
  /** The kinds of writes that the database refuses. */
  private readonly refusals = new Set<string>();
  /**
   * How often this process has dropped workflows that others took over. A workflow that was started or claimed before
   * the last drop, and comes into memory after it, may have another owner by now.
   */
  lossCount = 0;
  /**
   * How often the database was found to lack committed rows. After that, its tables may name this process as the owner
   * of workflows that this process does not run.
   */
  rollbackCount = 0;

  /** `onRefused` receives the reason when the first kind of write is refused, and null when all are accepted again. */
  constructor(private readonly onRefused: (error: Error | null) => void = () => {}) {}

  get isOpen(): boolean {
    return this.isConfirmed && this.refusals.size === 0;
  }

  /** True if other executors know that this process is alive. */
  get isConfirmed(): boolean {
    return this.monotonic() < this.until;
  }

  /** Closes the gate. From now on it is open only until the instant that `confirmUntil` sets, on this clock. */
  followClock(monotonic: () => number): void {
    this.monotonic = monotonic;
    this.until = Number.NEGATIVE_INFINITY;
  }

  confirmUntil(instant: number): void {
    // The answer to an earlier heartbeat may arrive after the answer to a later one.
    this.until = Math.max(this.until, instant);
    this.wake();
  }

  /**
   * Notes that the database refuses writes of this kind, or accepts them again (null). An outcome that cannot be
   * written stays in memory. Each step that started meanwhile would add another such outcome. All these steps would
   * run again if this process died.
   */
  setRefused(kind: string, error: Error | null): void {
    const before = this.refusals.size;
    if (error) this.refusals.add(kind);
    else this.refusals.delete(kind);
    if (before === 0 && error) this.onRefused(error);
    if (before > 0 && this.refusals.size === 0) this.onRefused(null);
    this.wake();
  }

  /** Resolves at the next heartbeat that is answered; undefined: the heartbeats are confirmed now. */
  untilConfirmed(): Promise<void> | undefined {
    return this.isConfirmed ? undefined : new Promise((resolve) => this.confirmationWaiters.add(resolve));
  }

  private wake(): void {
    if (this.isConfirmed) wakeAll(this.confirmationWaiters);
    if (this.isOpen) wakeAll(this.openWaiters);
  }

  /** Calls `wake` once, when the gate opens next. Returns a function that removes `wake`. */
  onceOpen(wake: () => void): () => void {
    this.openWaiters.add(wake);
    return () => void this.openWaiters.delete(wake);
  }
}

function wakeAll(waiting: Set<() => void>): void {
  const woken = [...waiting];
  waiting.clear();
  for (const wake of woken) wake();
}
