import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { isUnusable } from '../../storage/contract/failure.js';

/** Goes with a line about a failure of the database that is tried again by itself. */
export interface Retried {
  readonly retriedAfter: unknown;
}

const logEveryMs = 1_000;

/** What only a person can change is said once in so long: by each that fails, because each may need another right. */
const refusalEveryMs = 30_000;

/** More different lines than there are services and kinds of writes. */
const maxRefusals = 200;

/** Says that outcomes cannot be recorded, which keeps every step of this process from beginning; and that they can again. */
export function reportRefusal(logger: Logger, error: Error | null): void {
  if (error === null) {
    logger.info('Outcomes are recorded again: steps begin, and work is claimed.');
    return;
  }
  logger.error(
    'The outcomes of steps or workflows cannot be recorded. They stay in memory and are written as soon as the database takes ' +
      `them; until then this process begins no step and claims no work. ${describeError(error)}`,
  );
}

/**
 * The log of one app, in which an outage of the database is one line a second, however many services, queues and writes
 * it stops: all of them try again, and each has something to say about it. What is left out is counted in the next line.
 * A missing right or table is one line in half a minute for each that fails by it.
 * A failure that is no outage is as a rule peculiar to whoever reports it, and always logged.
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
    // As they came: the console would print details that are none.
    debug: (...line) => logger.debug(...line),
    info: (...line) => logger.info(...line),
    error: (...line) => logger.error(...line),
    warn: (...line) => {
      const [message, details] = line;
      const isOne = details !== undefined && 'retriedAfter' in details && isOutage(details.retriedAfter);
      if (!isOne) return logger.warn(...line);
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
