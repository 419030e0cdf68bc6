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
export class Standing {
  private monotonic: () => number = () => 0;
  /** Where nobody keeps it up, as in a client, there is nothing to lose. */
  private until = Number.POSITIVE_INFINITY;
  private readonly waiting = new Set<() => void>();
  /**
   * How often this process has parted with what others took. What was started or claimed before the last time, and comes
   * into memory after it, may be another's by now.
   */
  returns = 0;

  get confirmed(): boolean {
    return this.monotonic() < this.until;
  }

  /** From now on it holds only as far as it is confirmed, on this clock. */
  follow(monotonic: () => number): void {
    this.monotonic = monotonic;
    this.until = Number.NEGATIVE_INFINITY;
  }

  confirmUntil(instant: number): void {
    // The answer to an earlier heartbeat may be the later one.
    this.until = Math.max(this.until, instant);
    if (!this.confirmed) return;
    const woken = [...this.waiting];
    this.waiting.clear();
    for (const wake of woken) wake();
  }

  /** Resolves at the next confirmation; undefined: it is confirmed now. */
  untilConfirmed(): Promise<void> | undefined {
    return this.confirmed ? undefined : new Promise((resolve) => this.waiting.add(resolve));
  }

  /** Calls `wake` at the next confirmation. Returns how to do without. */
  onceConfirmed(wake: () => void): () => void {
    this.waiting.add(wake);
    return () => void this.waiting.delete(wake);
  }
}
