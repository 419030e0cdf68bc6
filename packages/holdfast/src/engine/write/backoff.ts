import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import type { Failure } from '../../storage/database.js';
import type { Retried } from './outage-log.js';

const firstPauseMs = 20;
const defaultLongestPauseMs = 5_000;
const logEveryMs = 1_000;

/** The pauses between attempts at a database that fails: ever longer, with chance in them, logged at most each second. */
export class Backoff {
  private attempts = 0;
  private lastLogAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly what: string,
    private readonly logger: Logger,
    private readonly longestPauseMs = defaultLongestPauseMs,
  ) {}

  async pause(error: unknown): Promise<void> {
    const ms = this.nextPause(error);
    await new Promise((resolve) => setTimeout(resolve, ms).unref());
  }

  /** For those who do something else meanwhile: how long it is, after this failure. */
  nextPause(error: unknown): number {
    const now = performance.now();
    if (now - this.lastLogAt >= logEveryMs) {
      this.lastLogAt = now;
      const message = `${this.what} failed and is tried again: ${describeError(error)}`;
      this.logger.warn(message, { retriedAfter: error } satisfies Retried);
    }
    const longest = Math.min(this.longestPauseMs, firstPauseMs * 2 ** Math.min(this.attempts++, 20));
    return longest * (0.5 + Math.random() / 2);
  }

  /** The database has answered: the next failure begins a new series. */
  reset(): void {
    this.attempts = 0;
  }
}

/** Whether to give up. A caller outside of workflows is told of a missing right; a workflow waits for it. */
export function isFinal(failure: Failure, failsFast: boolean): boolean {
  return failure === 'refused' || (failsFast && failure === 'unusable');
}
