/** How long statements may follow each other before the event loop gets its turn. */
const longestMs = 5;

/**
 * Leaves the event loop its turns. A statement of SQLite runs while it is called, so that whoever awaits one after the other
 * goes on at once, in microtasks: a loop of a thousand commits would stop timers, heartbeats and all other work of the
 * process for as long as it takes.
 */
export class Turns {
  private begunAt: number | undefined;

  /** Undefined: a statement may run now. Otherwise it may when that resolves, whoever came first in the next turn. */
  wait(): Promise<void> | undefined {
    if (performance.now() - this.begin() < longestMs) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        this.begin();
        resolve();
      });
    });
  }

  private begin(): number {
    if (this.begunAt !== undefined) return this.begunAt;
    setImmediate(() => {
      this.begunAt = undefined;
    });
    this.begunAt = performance.now();
    return this.begunAt;
  }
}
