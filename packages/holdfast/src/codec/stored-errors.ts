/**
 * The parts of an error that are stored and that log lines show.
 *
 *   name, message, stack, code     stored, with well-known kinds of secrets masked (secrets.ts)
 *   cause, errors                  stored by the same rules, error by error
 *   plain properties               stored: strings, numbers, booleans, null, bigints, dates, and lists of these
 *   nested objects                 stored only if `keep` lists them; `holdfast_omitted` has the names of the others
 *
 * HTTP clients attach the whole request to their errors, with headers, body and connection. Storing all of this would
 * store secrets that nobody intended to store.
 *
 * **Invariant:** no function here throws, whatever the thrown value is and whatever `redact` does. Every replay would
 * repeat an error that is not stored.
 */
import { HoldfastError, isError, isHoldfastError } from '../model/errors.js';
import type { Logger } from '../model/logger.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { classWithPrototype } from './classes.js';
import { classKey, type ErrorRecord, errorFields, omittedKey, toThrown } from './error-record.js';
import { checkKeep, type KeepOption, type Kept, keptBy } from './keep.js';
import { recipeFor } from './recipes.js';
import { textOnlyRecord } from './salvage.js';
import { isSecretHeader, isSecretName, mask, maskText } from './secrets.js';

/** The argument and the result of {@link StoredErrorOptions.redact}: name, message, stack and the kept properties. */
export type StoredError = Record<string, unknown> & { name: string; message: string; stack: string };

export interface StoredErrorOptions {
  /**
   * The object properties of errors to store: a list of names or of paths such as `response.data`, or `'all'`.
   * Default: none. Well-known secrets in them are always masked.
   */
  readonly keep?: KeepOption;
  /**
   * Called last for every error that is stored (`record`) and for every error in a log line (`log`). Returns the
   * record to use instead, synchronously. Each cause and each member of `errors` is passed separately. If `redact`
   * throws, nothing of the error is stored or logged.
   */
  readonly redact?: (error: StoredError, use: 'record' | 'log') => StoredError;
}

/** The maximum number of names in `holdfast_omitted`. */
const maxNames = 50;

/** The maximum length of a chain of causes, and the maximum depth of an object. */
const maxDepth = 100;

export function checkStoredErrorOptions(what: string, options: StoredErrorOptions = {}): StoredErrorOptions {
  checkKnownOptions(`${what}: "errors"`, options, ['keep', 'redact']);
  checkKeep(what, 'errors.keep', options.keep);
  if (options.redact !== undefined && typeof options.redact !== 'function') {
    throw invalidOption(what, 'errors.redact', options.redact, 'a function from an error record to an error record');
  }
  return options;
}

export class StoredErrors {
  private readonly keep: Kept | 'whole';
  /** The thrown objects that contain the current one. */
  private readonly ancestors = new Set<object>();

  constructor(
    private readonly options: StoredErrorOptions = {},
    /**
     * The maximum length of a text. A longer text would not fit into a record, so it is cut before it is searched.
     */
    private readonly maxLength = Number.POSITIVE_INFINITY,
  ) {
    this.keep = keptBy(options.keep);
  }

  /** Returns a copy that also keeps these properties, for a format that has fields for them. */
  keeping(...names: readonly string[]): StoredErrors {
    const { keep = [] } = this.options;
    return new StoredErrors({ ...this.options, keep: keep === 'all' ? keep : [...keep, ...names] }, this.maxLength);
  }

  /** Returns the form of a thrown value that is stored. */
  record(thrown: unknown): unknown {
    return this.orBareRecord(thrown, () => this.reduce(thrown, 'record'));
  }

  /**
   * Returns one level of an error inside a value. Causes and members stay errors; the codec asks for their fields.
   */
  fields(error: Error): ErrorRecord {
    const nested = (value: unknown): unknown => (isError(value) ? value : this.reduce(value, 'record'));
    const oneLevel = (): ErrorRecord => this.reduceError(error, 'record', nested);
    return this.orBareRecord(error, () => this.inside(error, oneLevel)) as ErrorRecord;
  }

  /** Returns an error as a text for a log line. */
  describe(thrown: unknown): string {
    const shown = this.orBareRecord(thrown, () => this.reduce(thrown, 'log'));
    try {
      return isRecord(shown) ? `${shown.name}: ${shown.message}` : String(shown);
    } catch {
      return `a value of the type ${typeof shown} that cannot be shown as text`;
    }
  }

  /** Returns a logger that masks secrets in messages and details. */
  logger(logger: Logger): Logger {
    const masking =
      (method: keyof Logger) =>
      (message: string, ...details: [details?: object]): void =>
        logger[method](maskText(message), ...(details.map((each) => each && this.maskDetails(each)) as [object?]));
    return { debug: masking('debug'), info: masking('info'), warn: masking('warn'), error: masking('error') };
  }

  private maskDetails(details: object): object {
    const shown = (value: unknown): unknown => {
      if (typeof value === 'string') return maskText(value);
      return isError(value) ? toThrown(this.orBareRecord(value, () => this.reduce(value, 'log'))) : value;
    };
    return Object.fromEntries(Object.entries(details).map(([key, value]) => [key, shown(value)]));
  }

  /** If `make` throws, returns a record with only name, message and stack. */
  private orBareRecord(thrown: unknown, make: () => unknown): unknown {
    try {
      return make();
    } catch {
      const { name, message, stack } = textOnlyRecord(thrown);
      return { name, message: maskText(message), stack: maskText(stack) };
    }
  }

  private reduce(thrown: unknown, use: 'record' | 'log'): unknown {
    if (typeof thrown === 'string') return this.redactedNonError(thrown, this.maskedText(thrown), use);
    if (typeof thrown !== 'object' || thrown === null) return thrown;
    if (this.ancestors.has(thrown)) return '[Circular]';
    if (this.ancestors.size >= maxDepth) return '[Error]';
    return this.inside(thrown, () =>
      isError(thrown)
        ? this.reduceError(thrown, use, (value) => this.reduce(value, use))
        : this.redactedNonError(thrown, this.plainParts(thrown, use), use),
    );
  }

  /** Returns the plain properties of an object that is not an error, or the plain properties of its members. */
  private plainParts(thrown: object, use: 'record' | 'log'): unknown {
    const kind = recipeFor(thrown)?.kind;
    if (kind === 'record') return this.keepProperties(thrown, {}, this.keep);
    if (this.keep === 'whole') return this.copy(thrown);
    const member = (each: unknown): unknown => this.member(each, use);
    if (kind === 'array')
      return (thrown as unknown[]).map((each, i) => (isHeaderValue(thrown, i) ? mask : member(each)));
    if (kind === 'set') return new Set([...(thrown as Set<unknown>)].map(member));
    if (kind !== 'map') return this.copy(thrown);
    const entries = [...(thrown as Map<unknown, unknown>)].filter(([key, each]) => isPlain(key) && isPlain(each));
    return this.copy(new Map(entries));
  }

  private member(each: unknown, use: 'record' | 'log'): unknown {
    if (typeof each !== 'object' || each === null) return this.copy(each);
    if (isError(each) || this.ancestors.has(each) || this.ancestors.size >= maxDepth) return this.reduce(each, use);
    return this.inside(each, () => this.plainParts(each, use));
  }

  private inside<T>(thrown: object, walk: () => T): T {
    this.ancestors.add(thrown);
    try {
      return walk();
    } finally {
      this.ancestors.delete(thrown);
    }
  }

  private reduceError(error: Error, use: 'record' | 'log', nested: (value: unknown) => unknown): ErrorRecord {
    const own = errorFields(error, (key) => readSafely(error, key));
    const errors: Record<string, unknown> = {};
    if ('cause' in own) errors.cause = nested(own.cause);
    if (Array.isArray(own.errors)) errors.errors = own.errors.map(nested);
    for (const key of Object.keys(errors)) delete own[key];
    const record: Record<string, unknown> = {};
    for (const key of ['name', 'message', 'stack'] as const) record[key] = this.maskedText(own[key]);
    if (classKey in own) record[classKey] = own[classKey];
    // A code that is an object could contain secrets.
    if ('code' in own && isPlain(own.code)) record.code = own.code;
    const { redact } = this.options;
    const base = redact ? record : Object.assign(record, errors);
    const whole = this.keepProperties(own, base, this.keepFor(error)) as ErrorRecord;
    return redact ? Object.assign(this.redacted(whole, use), errors) : whole;
  }

  private keepFor(error: Error): Kept | 'whole' {
    if (isOurs(error)) return keptOfOurs;
    const keep = classWithPrototype(Object.getPrototypeOf(error) as object)?.keep;
    return keep === undefined ? this.keep : keptBy(this.options.keep, keep);
  }

  /** Adds the plain properties of an object and the properties of `keep` to the record. */
  private keepProperties(from: object, record: Record<string, unknown>, keep: Kept | 'whole') {
    const omitted: string[] = [];
    for (const key of Object.keys(from)) {
      if (Object.hasOwn(record, key) || key === '__proto__') continue;
      const value = readSafely(from, key);
      const node = isUnstorable(value) ? undefined : keep === 'whole' ? keep : keep.get(key);
      if (isUnstorable(value)) omitted.push(key);
      else if (isSecretName(key)) record[key] = masked(value);
      else if (isPlain(value) || node === 'whole') record[key] = this.copy(value);
      else if (node) record[key] = this.keptParts(value as object, node);
      else omitted.push(key);
    }
    const earlier = record[omittedKey];
    if (omitted.length > 0)
      record[omittedKey] = Array.isArray(earlier) ? [...new Set([...earlier, ...omitted])] : omitted.slice(0, maxNames);
    return record;
  }

  private keptParts(from: object, keep: Kept): object {
    const record: Record<string, unknown> = {};
    for (const [key, node] of keep) {
      const value = readSafely(from, key);
      if (value === undefined || isUnstorable(value)) continue;
      if (isSecretName(key)) record[key] = masked(value);
      else record[key] = node === 'whole' || isPlain(value) ? this.copy(value) : this.keptParts(value as object, node);
    }
    return record;
  }

  /**
   * Returns a copy with secrets masked. Values that cannot be stored are returned as they are; the codec refuses
   * them.
   */
  private copy(value: unknown, seen = new Map<object, unknown>(), depth = 0): unknown {
    if (typeof value === 'string') return this.maskedText(value);
    if (typeof value !== 'object' || value === null || value instanceof Date) return value;
    const known = seen.get(value);
    if (known !== undefined) return known;
    if (depth > maxDepth) return '[Object]';
    const member = (each: unknown): unknown => this.copy(each, seen, depth + 1);
    const named = (key: unknown, each: unknown): unknown =>
      typeof key === 'string' && isSecretName(key) ? masked(each) : member(each);
    if (isError(value)) {
      const error = toThrown(this.reduce(value, 'record'));
      seen.set(value, error);
      return error;
    }
    const kind = recipeFor(value)?.kind;
    if (kind === 'array') {
      const list: unknown[] = [];
      seen.set(value, list);
      for (const [i, each] of (value as unknown[]).entries())
        list.push(isHeaderValue(value, i) ? masked(each) : member(each));
      return list;
    }
    if (kind === 'map') {
      const map = new Map<unknown, unknown>();
      seen.set(value, map);
      for (const [key, each] of value as Map<unknown, unknown>) map.set(member(key), named(key, each));
      return map;
    }
    if (kind === 'set') {
      const set = new Set<unknown>();
      seen.set(value, set);
      for (const each of value as Set<unknown>) set.add(member(each));
      return set;
    }
    // A registered class with `to` decides itself which of its content is stored.
    const isOpen = kind === 'record' || classWithPrototype(Object.getPrototypeOf(value) as object)?.to === undefined;
    if (kind === undefined || kind === 'leaf' || !isOpen) return value;
    const record = Object.create(kind === 'record' ? Object.prototype : Object.getPrototypeOf(value)) as Record<
      string,
      unknown
    >;
    seen.set(value, record);
    for (const key of Object.keys(value)) {
      const each = readSafely(value, key);
      if (key !== '__proto__' && each !== unreadable)
        record[key] = isValueOfPair(value, key) ? masked(each) : named(key, each);
    }
    return record;
  }

  private maskedText(text: string): string {
    if (text.length <= this.maxLength) return maskText(text);
    return `${maskText(text.slice(0, this.maxLength))}… (cut: it has ${text.length} characters)`;
  }

  /** Applies `redact` to a thrown value that is not an error. */
  private redactedNonError(thrown: unknown, value: unknown, use: 'record' | 'log'): unknown {
    if (!this.options.redact) return value;
    const message = typeof value === 'string' ? value : 'The code threw a value that is not an Error.';
    const record = this.redacted({ name: 'NonError', message, stack: '', value }, use);
    if (typeof thrown === 'string' && 'value' in record && record.value === value) return record.message;
    return 'value' in record ? record.value : record;
  }

  private redacted(record: ErrorRecord, use: 'record' | 'log'): ErrorRecord {
    try {
      const result: unknown = this.options.redact?.({ ...record }, use);
      // The copy is checked, because inherited texts would not be stored.
      const copy: unknown = { ...(result as object) };
      if (isRecord(copy) && !isError(result)) return copy;
      // An unhandled rejection would end the process.
      Promise.resolve(result).catch(() => {});
      return withheld('`redact` did not return an error record');
    } catch (failure) {
      // The message of the failure may quote the values to hide.
      return withheld(`\`redact\` threw ${isError(failure) ? maskText(failure.name) : typeof failure}`);
    }
  }
}

/** Returns the record that replaces an error of which nothing may be shown. */
function withheld(why: string): ErrorRecord {
  const message =
    `It failed, and its error is withheld: ${why}. Correct the function \`redact\` of launch({ errors }). Look for ` +
    'the error itself where it was thrown.';
  return errorFields(new HoldfastError('ERROR_WITHHELD', message));
}

/** The details of our own errors are meant to be stored. */
const keptOfOurs: Kept = new Map([['details', 'whole' as const]]);

function isOurs(error: Error): boolean {
  return isHoldfastError(error) || ['HoldfastError', 'FatalError'].includes(String(readSafely(error, 'name')));
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Date) return true;
  return Array.isArray(value) && value.every((each) => !isUnstorable(each) && !Array.isArray(each) && isPlain(each));
}

function masked(value: unknown): unknown {
  return value === undefined || value === null || value === '' || typeof value === 'boolean' ? value : mask;
}

/** Returns true for a secret in `['Authorization', 'Bearer ...', 'Host', ...]`, the form of raw headers in Node. */
function isHeaderValue(list: object, index: number): boolean {
  const name: unknown = (list as readonly unknown[])[index - 1];
  return typeof name === 'string' && isSecretHeader(name);
}

/** Returns true for the value of `{ name: 'authorization', value: '...' }`. */
function isValueOfPair(record: object, key: string): boolean {
  if (key !== 'value') return false;
  const name = readSafely(record, 'name') ?? readSafely(record, 'key');
  return typeof name === 'string' && isSecretName(name);
}

/** Replaces the value of a getter that throws. */
const unreadable = Symbol('unreadable');

function readSafely(from: object, key: string): unknown {
  try {
    return Reflect.get(from, key);
  } catch {
    return unreadable;
  }
}

/** Returns true for a value that no format can store. */
function isUnstorable(value: unknown): boolean {
  return typeof value === 'function' || typeof value === 'symbol';
}

function isRecord(value: unknown): value is ErrorRecord {
  const { name, message, stack } = (value ?? {}) as Partial<ErrorRecord>;
  return [name, message, stack].every((text) => typeof text === 'string') && !isError(value);
}
