/**
 * Time, as the engine sees it. Everything that waits or reads the time goes through a Clock, so that a test can put
 * a virtual one in its place and a 30-day sleep takes no time.
 *
 * `now()` is the *database's* time: deadlines and sleeps are instants that every process of a fleet must agree on
 * (P6), whatever its own clock says.
 */
export interface Clock {
  /** Epoch milliseconds on the database's clock. */
  now(): number;
  /**
   * Calls `fire` once `now()` has reached `at`. For a virtual clock, which goes from one such instant to the next:
   * `background` marks the pace of a service that nobody's progress depends on, so that it need not stop at each beat;
   * `tick` marks what comes round for ever, so that it need not be waited for.
   */
  at(at: number, fire: () => void, kind?: 'background' | 'tick'): Timer;
}

export interface Timer {
  cancel(): void;
}

/**
 * A long wait goes in stretches of this length: setTimeout counts in 31 bits, and stands still while the host is
 * suspended; the clock, corrected against the server since, is looked at anew after each.
 */
const longestTimeoutMs = 60_000;

/**
 * The database's clock, kept by the monotonic clock of this process plus an offset measured against the server.
 * A jump of this host's wall clock therefore moves nothing.
 */
export class DatabaseClock implements Clock {
  private offset = Date.now() - performance.now();

  now(): number {
    return Math.round(performance.now() + this.offset);
  }

  /** Takes a reading of the server's clock that was requested and answered at these monotonic instants. */
  sync(serverNow: number, requestedAt: number, answeredAt: number): void {
    const measured = serverNow - (requestedAt + answeredAt) / 2;
    const uncertainty = (answeredAt - requestedAt) / 2 + 1;
    // Within its uncertainty a reading says nothing new; taking it would only make the clock tremble.
    if (Math.abs(measured - this.offset) > uncertainty) this.offset = measured;
  }

  at(at: number, fire: () => void): Timer {
    let handle: NodeJS.Timeout;
    const arm = (): void => {
      // Re-reading the clock each time chunks long waits and follows a corrected offset.
      const remaining = at - this.now();
      if (remaining <= 0) fire();
      else handle = setTimeout(arm, Math.min(remaining, longestTimeoutMs));
    };
    handle = setTimeout(arm, Math.max(0, Math.min(at - this.now(), longestTimeoutMs)));
    return { cancel: () => clearTimeout(handle) };
  }
}

/** Resolves after `ms` on this clock, or at once when the signal aborts. Never rejects. */
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
