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

export function checkLogger(what: string, logger: Logger): void {
  for (const method of ['debug', 'info', 'warn', 'error'] as const) {
    if (typeof logger?.[method] === 'function') continue;
    throw invalidOption(what, 'logger', logger, `an object with ${method}()`);
  }
}
