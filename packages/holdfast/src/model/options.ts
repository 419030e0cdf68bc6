import { HoldfastError } from './errors.js';
import { didYouMean } from './suggest.js';

/** Throws for an option that does not exist. The message suggests the option that was probably meant. */
export function checkKnownOptions(what: string, options: object, known: readonly string[]): void {
  const wrongType = describeWrongType(options);
  if (wrongType !== undefined) {
    throw new HoldfastError(
      'INVALID_OPTION',
      `${what} takes its options as an object with: ${known.join(', ')}; it was given ${wrongType}.`,
      { details: { known } },
    );
  }
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue;
    const option = String(hideUrl(key));
    throw new HoldfastError(
      'INVALID_OPTION',
      `${what} has no option "${option}".${didYouMean(option, known)} It takes: ${known.join(', ')}.`,
      { details: { option, known } },
    );
  }
}

/**
 * Wraps operations without options, so that they reject a call with options. For example, `cancel(id, { children: false
 * })` must not look like a cancel that spares the children. `argumentCounts` is the number of arguments that each
 * operation takes. Extra numbers and lists are allowed, because `ids.map(app.workflows.get)` passes an index and the
 * list.
 */
export function rejectExtraOptions<Operations extends object>(
  operations: Operations,
  argumentCounts: { readonly [Name in keyof Operations]?: number },
): Operations {
  const checked = { ...operations };
  for (const [name, count] of Object.entries(argumentCounts) as [keyof Operations & string, number][]) {
    const operation = operations[name] as (...args: unknown[]) => unknown;
    // Returns the operation's own promise, because the promises of calls in workflows are recognized by identity.
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

/**
 * Throws if one call of a function without options got options. `extraArguments` follow the function's own arguments.
 */
export function refuseOptions(operation: string, extraArguments: readonly unknown[]): void {
  const options = extraArguments.find((each) => typeof each === 'object' && !Array.isArray(each) && each !== null);
  if (options === undefined) return;
  throw new HoldfastError('INVALID_OPTION', `${operation} has no options, but it was given ${show(options)}.`, {
    details: { operation },
  });
}

/**
 * Describes a value that was given instead of an options object, or returns undefined. A promise, a Map or a Set has
 * no keys and would otherwise look like empty options.
 */
function describeWrongType(options: object): string | undefined {
  if (options === null) return 'null';
  if (typeof options !== 'object') return typeof options;
  if (Array.isArray(options)) return 'a list';
  if (typeof (options as { then?: unknown }).then === 'function') return 'a promise: await it first';
  if (options instanceof Map || options instanceof Set) return `a ${options instanceof Map ? 'Map' : 'Set'}`;
  return undefined;
}

export function invalidOption(what: string, option: string, value: unknown, expected: string): HoldfastError {
  return new HoldfastError('INVALID_OPTION', `${what}: "${option}" must be ${expected}, but it is ${show(value)}.`, {
    details: { option, value: hideUrl(value) },
  });
}

/** Hides a URL. The URL of a database contains a password, and may be passed to another option by mistake. */
export function hideUrl(value: unknown): unknown {
  return typeof value === 'string' && value.includes('://') ? '(a URL)' : value;
}

/**
 * An error for an option that is wrong here whatever its value. `problem` continues the sentence: `is missing: ...`.
 */
export function wrongOption(what: string, option: string, problem: string): HoldfastError {
  return new HoldfastError('INVALID_OPTION', `${what}: "${option}" ${problem}.`, { details: { option } });
}

/** Returns the value if it is a whole number from `min` to `max`. Throws a typed error otherwise. */
export function checkCount(what: string, option: string, value: unknown, min = 0, max?: number): number {
  const isCount = typeof value === 'number' && Number.isInteger(value) && value >= min;
  if (isCount && value <= (max ?? value)) return value;
  const range = max === undefined ? `of at least ${min}` : `from ${min} to ${max}`;
  throw invalidOption(what, option, value, `a whole number ${range}`);
}

/** The largest `int` in Postgres. */
export const maxInt = 2 ** 31 - 1;

/** Returns a value as messages show it. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(hideUrl(value));
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : value.toISOString();
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'function') return value.name === '' ? 'a function' : `the function "${value.name}"`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}
