import { HoldfastError } from './errors.js';
import { didYouMean } from './suggest.js';

/** Refuses options that do not exist, naming the one that was probably meant. */
export function checkKnownOptions(what: string, options: object, known: readonly string[]): void {
  const odd = oddity(options);
  if (odd !== undefined) {
    throw new HoldfastError(
      'INVALID_OPTION',
      `${what} takes its options as an object with: ${known.join(', ')}; it was given ${odd}.`,
      { details: { known } },
    );
  }
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue;
    const option = String(withoutUrl(key));
    throw new HoldfastError(
      'INVALID_OPTION',
      `${what} has no option "${option}".${didYouMean(option, known)} It takes: ${known.join(', ')}.`,
      { details: { option, known } },
    );
  }
}

/**
 * Refuses options where an operation has none: `cancel(id, { children: false })` must not pass for a cancel that spares the
 * children. `taken` is the number of arguments that each operation takes. Numbers and lists behind them are let pass, because
 * `ids.map(app.workflows.get)` hands over an index and the list.
 */
export function refusingOptions<Operations extends object>(
  operations: Operations,
  taken: { readonly [Name in keyof Operations]?: number },
): Operations {
  const checked = { ...operations };
  for (const [name, count] of Object.entries(taken) as [keyof Operations & string, number][]) {
    const operation = operations[name] as (...args: unknown[]) => unknown;
    // The operation's own promise is handed on: those of calls in workflows are known by their identity.
    const call = (...args: unknown[]) => {
      try {
        refuseOptions(`${name}()`, args.slice(count));
      } catch (refusal) {
        return Promise.reject(refusal);
      }
      return operation(...args);
    };
    checked[name] = call as Operations[typeof name];
  }
  return checked;
}

/** The same for one call of a function that takes no options: `more` is what follows its arguments. */
export function refuseOptions(operation: string, more: readonly unknown[]): void {
  const options = more.find((each) => typeof each === 'object' && !Array.isArray(each) && each !== null);
  if (options === undefined) return;
  throw new HoldfastError('INVALID_OPTION', `${operation} has no options, but it was given ${show(options)}.`, {
    details: { operation },
  });
}

/** What was given instead of options. A promise, a Map or a Set has no keys: it would pass for no options at all. */
function oddity(options: object): string | undefined {
  if (options === null) return 'null';
  if (typeof options !== 'object') return typeof options;
  if (Array.isArray(options)) return 'a list';
  if (typeof (options as { then?: unknown }).then === 'function') return 'a promise: await it first';
  if (options instanceof Map || options instanceof Set) return `a ${options instanceof Map ? 'Map' : 'Set'}`;
  return undefined;
}

export function invalidOption(what: string, option: string, value: unknown, expected: string): HoldfastError {
  return new HoldfastError('INVALID_OPTION', `${what}: "${option}" must be ${expected}, but it is ${show(value)}.`, {
    details: { option, value: withoutUrl(value) },
  });
}

/** The URL of a database has a password in it, and may be given in another place by mistake. */
export function withoutUrl(value: unknown): unknown {
  return typeof value === 'string' && value.includes('://') ? '(a URL)' : value;
}

/** The option is wrong here, whatever its value. `problem` goes on after its name: `is missing: ...`. */
export function misplacedOption(what: string, option: string, problem: string): HoldfastError {
  return new HoldfastError('INVALID_OPTION', `${what}: "${option}" ${problem}.`, { details: { option } });
}

/** A whole number of at least `least`, or the typed error that says so. */
export function checkCount(what: string, option: string, value: unknown, least = 0, most?: number): number {
  const isCount = typeof value === 'number' && Number.isInteger(value) && value >= least;
  if (isCount && value <= (most ?? value)) return value;
  const range = most === undefined ? `of at least ${least}` : `from ${least} to ${most}`;
  throw invalidOption(what, option, value, `a whole number ${range}`);
}

/** The largest `int` of Postgres. */
export const maxInt = 2 ** 31 - 1;

/** A value as messages show it. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(withoutUrl(value));
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : value.toISOString();
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'function') return value.name === '' ? 'a function' : `the function "${value.name}"`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}
