/**
 * Whether this process may begin something that must not be done twice, and take on work at all. Others take an executor for dead when it has been
 * silent for its time to live, and run its work; one that cannot know whether it is heard stops to begin steps before
 * that. Replays, reads and writes go on: a write that comes too late finds another owner.
 *
 * Starts and claims wait too. An executor that was silent for long is forgotten by the others; what it took on then, and
 * did not live to say so by a heartbeat, would be nobody's that recovery knows.
 *
 * Asked before each attempt of a step and each statement that takes on work, by the clock and not by a flag that a timer sets: after a stop (SIGSTOP, a blocked
 * event loop) answers from the database, and the steps they lead to, come before any timer.
 */
export class StartGate {
  private monotonic: () => number = () => 0;
  /** Where nobody keeps it up, as in a client, there is nothing to lose. */
  private until = Number.POSITIVE_INFINITY;
  private readonly waiting = new Set<() => void>();
  private readonly hearing = new Set<() => void>();
  /** The kinds of outcomes that the database refuses to write. */
  private readonly refusals = new Set<string>();
  /**
   * How often this process has parted with what others took. What was started or claimed before the last time, and comes
   * into memory after it, may be another's by now.
   */
  lossCount = 0;
  /** How often the database was found to lack what was committed. What is on record as this process's may be a surprise. */
  rollbackCount = 0;

  /** Hears when the first kind is refused, with the reason, and with null when none is refused any more. */
  constructor(private readonly onRefused: (error: Error | null) => void = () => {}) {}

  get isOpen(): boolean {
    return this.isConfirmed && this.refusals.size === 0;
  }

  /** Whether others know that this process lives. */
  get isConfirmed(): boolean {
    return this.monotonic() < this.until;
  }

  /** From now on it holds only as far as it is confirmed, on this clock. */
  followClock(monotonic: () => number): void {
    this.monotonic = monotonic;
    this.until = Number.NEGATIVE_INFINITY;
  }

  confirmUntil(instant: number): void {
    // The answer to an earlier heartbeat may be the later one.
    this.until = Math.max(this.until, instant);
    this.wake();
  }

  /**
   * The database refuses to write outcomes of this kind, or takes them again (null). An outcome that cannot be recorded stays in
   * memory. Each step that began meanwhile would add one, and the death of this process would repeat all of them.
   */
  setRefused(kind: string, error: Error | null): void {
    const before = this.refusals.size;
    if (error) this.refusals.add(kind);
    else this.refusals.delete(kind);
    if (before === 0 && error) this.onRefused(error);
    if (before > 0 && this.refusals.size === 0) this.onRefused(null);
    this.wake();
  }

  /** Resolves at the next heartbeat that is answered; undefined: this process is heard now. */
  untilConfirmed(): Promise<void> | undefined {
    return this.isConfirmed ? undefined : new Promise((resolve) => this.hearing.add(resolve));
  }

  private wake(): void {
    if (this.isConfirmed) wakeAll(this.hearing);
    if (this.isOpen) wakeAll(this.waiting);
  }

  /** Calls `wake` at the next confirmation. Returns how to do without. */
  onceOpen(wake: () => void): () => void {
    this.waiting.add(wake);
    return () => void this.waiting.delete(wake);
  }
}

function wakeAll(waiting: Set<() => void>): void {
  const woken = [...waiting];
  waiting.clear();
  for (const wake of woken) wake();
}
