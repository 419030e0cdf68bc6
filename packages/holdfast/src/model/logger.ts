import { invalidOption } from './options.js';

/** Any logger with these four methods: console, pino, winston, or your own. */
export interface Logger {
  debug(message: string, details?: object): void;
  info(message: string, details?: object): void;
  warn(message: string, details?: object): void;
  error(message: string, details?: object): void;
}

/** What `launch` uses when it is given no logger: warnings and errors, on standard error. */
export const defaultLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: (message) => console.warn(`holdfast: ${message}`),
  error: (message) => console.error(`holdfast: ${message}`),
};

/** The logger to use for the one that was given, if any: a step must not fail, nor go without a record, because its log line did. */
export function checkLogger(what: string, logger: Logger = defaultLogger): Logger {
  for (const method of ['debug', 'info', 'warn', 'error'] as const) {
    if (typeof logger?.[method] === 'function') continue;
    throw invalidOption(what, 'logger', logger, `an object with ${method}()`);
  }
  // A line that it throws at goes where lines go without a logger.
  const tell =
    (method: keyof Logger) =>
    (...line: [message: string, details?: object]): void => {
      try {
        logger[method](...line);
      } catch {
        defaultLogger[method](...line);
      }
    };
  return { debug: tell('debug'), info: tell('info'), warn: tell('warn'), error: tell('error') };
}
