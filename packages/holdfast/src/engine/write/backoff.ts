import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import type { Failure } from '../../storage/contract/failure-kind.js';
import type { Retried } from './outage-log.js';

const firstPauseMs = 20;
const defaultMaxPauseMs = 5_000;
const logEveryMs = 1_000;

/** Growing, randomized pauses between attempts while the database fails. Logs a warning at most once a second. */
export class Backoff {
  private attempts = 0;
  private lastLogAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly what: string,
    private readonly logger: Logger,
    private readonly maxPauseMs = defaultMaxPauseMs,
  ) {}

  async pause(error: unknown): Promise<void> {
    const ms = this.nextPause(error);
    await new Promise((resolve) => setTimeout(resolve, ms).unref());
  }

  /** Returns the pause after this failure in milliseconds, for callers that do other work during the pause. */
  nextPause(error: unknown): number {
    const now = performance.now();
    if (now - this.lastLogAt >= logEveryMs) {
      this.lastLogAt = now;
      const message = `${this.what} failed and is tried again: ${describeError(error)}`;
      this.logger.warn(message, { retriedAfter: error } satisfies Retried);
    }
    const ceiling = Math.min(this.maxPauseMs, firstPauseMs * 2 ** Math.min(this.attempts++, 20));
    return ceiling * (0.5 + Math.random() / 2);
  }

  /** Notes that the database has answered. The next failure starts with a short pause again. */
  reset(): void {
    this.attempts = 0;
  }
}

/**
 * True if retrying is useless. A caller outside of workflows gets the error of a missing right; a workflow waits.
 */
export function isFinal(failure: Failure, failsFast: boolean): boolean {
  return failure === 'refused' || (failsFast && failure === 'unusable');
}
