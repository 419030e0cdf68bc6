/** How long statements may run one after the other before the event loop continues. */
const maxTurnMs = 5;

/**
 * Lets the event loop run between statements. A statement of SQLite runs synchronously, so code that awaits one
 * statement after the other continues in microtasks. Without this class, a loop of a thousand commits would block
 * timers, heartbeats and all other work of the process.
 */
export class EventLoopTurns {
  private turnStartedAt: number | undefined;

  /**
   * Returns undefined if a statement may run now. Otherwise returns a promise that resolves in the next turn of the
   * event loop, in the order of the calls.
   */
  wait(): Promise<void> | undefined {
    if (performance.now() - this.startTurn() < maxTurnMs) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        this.startTurn();
        resolve();
      });
    });
  }

  private startTurn(): number {
    if (this.turnStartedAt !== undefined) return this.turnStartedAt;
    setImmediate(() => {
      this.turnStartedAt = undefined;
    });
    this.turnStartedAt = performance.now();
    return this.turnStartedAt;
  }
}
