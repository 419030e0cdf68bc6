import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { isUnusable } from '../../storage/contract/failure.js';

/** Details of a log line about a failed statement that is retried automatically. `retriedAfter` is its error. */
export interface Retried {
  readonly retriedAfter: unknown;
}

const logEveryMs = 1_000;

/** Minimum interval between equal lines about a missing right or table, which only a person can fix. */
const refusalEveryMs = 30_000;

/** Maximum number of remembered lines. There are fewer services and kinds of writes than this. */
const maxRefusals = 200;

/**
 * Logs that outcomes cannot be recorded, so that this process starts no steps; and later, that they are recorded
 * again.
 */
export function reportRefusal(logger: Logger, error: Error | null): void {
  if (error === null) {
    logger.info('Outcomes are recorded again. This process starts steps and claims work again.');
    return;
  }
  logger.error(
    'The outcomes of steps or workflows cannot be recorded. They stay in memory until the database accepts them. ' +
      `Until then this process starts no steps and claims no work. ${describeError(error)}`,
  );
}

/**
 * Returns the logger of one app. It logs an outage of the database by one line a second, even though many services,
 * queues and writes retry and each reports the outage. The next line counts the lines that were left out.
 *
 * A missing right or table is logged once in half a minute by each service or write that it stops. Every other failure
 * is always logged, because it usually concerns only its reporter.
 */
export function limitOutages(
  logger: Logger,
  isOutage: (error: unknown) => boolean,
  now = (): number => performance.now(),
): Logger {
  let lastLogAt = Number.NEGATIVE_INFINITY;
  let leftOut = 0;
  const refusals = new Map<string, number>();
  const isTooSoon = (message: string): boolean => {
    if (now() - (refusals.get(message) ?? Number.NEGATIVE_INFINITY) < refusalEveryMs) return true;
    if (refusals.size === maxRefusals) refusals.clear();
    refusals.set(message, now());
    return false;
  };
  return {
    // The arguments are passed on unchanged: the console would print `undefined` for missing details.
    debug: (...line) => logger.debug(...line),
    info: (...line) => logger.info(...line),
    error: (...line) => logger.error(...line),
    warn: (...line) => {
      const [message, details] = line;
      const isOutageLine = details !== undefined && 'retriedAfter' in details && isOutage(details.retriedAfter);
      if (!isOutageLine) return logger.warn(...line);
      if (isUnusable(details.retriedAfter)) {
        if (!isTooSoon(message)) logger.warn(message, details);
        return;
      }
      if (now() - lastLogAt < logEveryMs) {
        leftOut++;
        return;
      }
      const others =
        leftOut === 0 ? '' : ` (${leftOut} more ${leftOut === 1 ? 'failure' : 'failures'} since the last one)`;
      [lastLogAt, leftOut] = [now(), 0];
      logger.warn(`${message}${others}`, details);
    },
  };
}
