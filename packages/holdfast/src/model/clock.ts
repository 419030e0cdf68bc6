/**
 * The clock of the engine. Everything that waits or reads the time uses a Clock. A test can replace the clock by a
 * virtual clock, so that a 30-day sleep takes no time.
 *
 * `now()` is the time of the *database*. Deadlines and sleeps are instants on which every process of a fleet must
 * agree (P6), even if the clocks of the processes differ.
 */
export interface Clock {
  /** Epoch milliseconds on the database's clock. */
  now(): number;
  /**
   * Calls `fire` once `now()` has reached `at`. The kinds are hints for a virtual clock, which jumps from one such
   * instant to the next. `background`: the next run of a service on which no workflow depends, so the clock need not
   * stop there. `tick`: an instant that recurs forever, such as the next tick of a schedule.
   */
  at(at: number, fire: () => void, kind?: 'background' | 'tick'): Timer;
}

export interface Timer {
  cancel(): void;
}

/**
 * A long wait is split into timeouts of this length. setTimeout takes at most 2^31 ms, and does not advance while the
 * host is suspended. After each timeout the wait reads the clock again, which may have been corrected against the
 * server.
 */
const longestTimeoutMs = 60_000;

/**
 * The clock of the database: the monotonic clock of this process plus an offset that is measured against the server.
 * A jump of the host's wall clock therefore has no effect.
 */
export class DatabaseClock implements Clock {
  private offset = Date.now() - performance.now();

  now(): number {
    return Math.round(performance.now() + this.offset);
  }

  /** Adjusts the offset to a reading of the server's clock, requested and answered at these monotonic instants. */
  sync(serverNow: number, requestedAt: number, answeredAt: number): void {
    const measured = serverNow - (requestedAt + answeredAt) / 2;
    const uncertainty = (answeredAt - requestedAt) / 2 + 1;
    // A difference within the uncertainty of the reading may be noise. Applying it would make the clock jitter.
    if (Math.abs(measured - this.offset) > uncertainty) this.offset = measured;
  }

  at(at: number, fire: () => void): Timer {
    let handle: NodeJS.Timeout;
    const arm = (): void => {
      // The clock is read again after each timeout, so the wait follows a corrected offset.
      const remaining = at - this.now();
      if (remaining <= 0) fire();
      else handle = setTimeout(arm, Math.min(remaining, longestTimeoutMs));
    };
    handle = setTimeout(arm, Math.max(0, Math.min(at - this.now(), longestTimeoutMs)));
    return { cancel: () => clearTimeout(handle) };
  }
}

/** Resolves after `ms` on this clock, or immediately when the signal aborts. Never rejects. */
export function delay(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = clock.at(clock.now() + ms, done);
    function done(): void {
      timer.cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    }
    signal?.addEventListener('abort', done, { once: true });
  });
}
