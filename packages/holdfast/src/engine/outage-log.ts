import type { Logger } from '../model/logger.js';

/** Goes with a line about a failure of the database that is tried again by itself. */
export interface Retried {
  readonly retriedAfter: unknown;
}

const logEveryMs = 1_000;

/**
 * The log of one app, in which an outage of the database is one line a second, however many services, queues and writes
 * it stops: all of them try again, and each has something to say about it. What is left out is counted in the next line.
 * A failure that is no outage is as a rule peculiar to whoever reports it, and always logged.
 */
export function limitOutages(
  logger: Logger,
  isOutage: (error: unknown) => boolean,
  now = (): number => performance.now(),
): Logger {
  let lastLogAt = Number.NEGATIVE_INFINITY;
  let leftOut = 0;
  return {
    // As they came: the console would print details that are none.
    debug: (...line) => logger.debug(...line),
    info: (...line) => logger.info(...line),
    error: (...line) => logger.error(...line),
    warn: (...line) => {
      const [message, details] = line;
      const isOne = details !== undefined && 'retriedAfter' in details && isOutage(details.retriedAfter);
      if (!isOne) return logger.warn(...line);
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
