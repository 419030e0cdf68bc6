import { invalidOption } from './options.js';

/** A logger with these four methods: console, pino, winston, or your own. */
export interface Logger {
  debug(message: string, details?: object): void;
  info(message: string, details?: object): void;
  warn(message: string, details?: object): void;
  error(message: string, details?: object): void;
}

/** The logger that `launch` uses by default. It writes warnings and errors to standard error. */
export const defaultLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: (message) => console.warn(`holdfast: ${message}`),
  error: (message) => console.error(`holdfast: ${message}`),
};

/**
 * Checks the given logger and returns a logger that never throws. A step must not fail, or stay unrecorded, because a
 * log method throws.
 */
export function checkLogger(what: string, logger: Logger = defaultLogger): Logger {
  for (const method of ['debug', 'info', 'warn', 'error'] as const) {
    if (typeof logger?.[method] === 'function') continue;
    throw invalidOption(what, 'logger', logger, `an object with ${method}()`);
  }
  // If the given logger throws, the default logger writes the line.
  const guarded =
    (method: keyof Logger) =>
    (...line: [message: string, details?: object]): void => {
      try {
        logger[method](...line);
      } catch {
        defaultLogger[method](...line);
      }
    };
  return { debug: guarded('debug'), info: guarded('info'), warn: guarded('warn'), error: guarded('error') };
}
