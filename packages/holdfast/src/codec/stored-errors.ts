/**
 * The part of an error that is stored, and that log lines show.
 *
 *   name, message, stack, code     with secrets of well-known kinds masked (connection-secrets.ts)
 *   cause, errors                  by the same rules, error by error
 *   plain properties               texts, numbers, booleans, null, bigints, dates, and lists of these
 *   nested objects                 only those of `keep`; the names of the others are in `holdfast_omitted`
 *
 * HTTP clients hang the whole request on their errors: its headers, its body, its connection. Nobody decided to store these,
 * and nobody reads them before they leak.
 *
 * **Invariant:** nothing here throws, whatever was thrown and whatever `redact` does: an error that is not on record would be
 * repeated by every replay.
 */
import { HoldfastError, isError, isHoldfastError } from '../model/errors.js';
import type { Logger } from '../model/logger.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { classWithPrototype } from './classes.js';
import { classKey, type ErrorRecord, errorFields, omittedKey, thrownFrom } from './error-record.js';
import { checkKeep, type KeepOption, type Kept, keptBy } from './keep.js';
import { recipeFor } from './recipes.js';
import { bareRecord } from './salvage.js';
import { isSecretHeader, isSecretName, mask, maskText } from './secrets.js';

/** What {@link StoredErrorOptions.redact} gets and returns: name, message, stack, and the properties that are kept. */
export type StoredError = Record<string, unknown> & { name: string; message: string; stack: string };

export interface StoredErrorOptions {
  /**
   * Which properties of errors are stored although they are objects: their names, or paths such as `response.data`; or `'all'`.
   * Default: none. Well-known secrets in them are masked in any case.
   */
  readonly keep?: KeepOption;
  /**
   * Has the last word on every error that is stored (`record`), and on every one that a log line describes (`log`). Returns
   * what is to be used instead, at once. Each cause, and each member of `errors`, is handed to it by itself. If it throws, the
   * error is withheld as a whole.
   */
  readonly redact?: (error: StoredError, use: 'record' | 'log') => StoredError;
}

/** Names in that list; more help nobody. */
const maxNames = 50;

/** Longer chains of causes, and deeper objects, are somebody's object graph. */
const deepest = 100;

export function checkStoredErrorOptions(what: string, options: StoredErrorOptions = {}): StoredErrorOptions {
  checkKnownOptions(`${what}: "errors"`, options, ['keep', 'redact']);
  checkKeep(what, 'errors.keep', options.keep);
  if (options.redact !== undefined && typeof options.redact !== 'function') {
    throw invalidOption(what, 'errors.redact', options.redact, 'a function from an error to what is stored of it');
  }
  return options;
}

export class StoredErrors {
  private readonly keep: Kept | 'whole';
  /** The errors that the walk is inside of. */
  private readonly open = new Set<object>();

  constructor(
    private readonly options: StoredErrorOptions = {},
    /** Longer texts would not fit into a record: they are cut before they are searched. */
    private readonly longest = Number.POSITIVE_INFINITY,
  ) {
    this.keep = keptBy(options.keep);
  }

  /** The same, for a format that has a place for these properties. */
  keeping(...names: readonly string[]): StoredErrors {
    const { keep = [] } = this.options;
    return new StoredErrors({ ...this.options, keep: keep === 'all' ? keep : [...keep, ...names] }, this.longest);
  }

  /** What to store of anything that was thrown. */
  record(thrown: unknown): unknown {
    return this.bounded(thrown, () => this.of(thrown, 'record'));
  }

  /** One level of an error inside a value: its causes and members stay errors, and are asked for in their turn. */
  fields(error: Error): ErrorRecord {
    const nested = (value: unknown): unknown => (isError(value) ? value : this.of(value, 'record'));
    return this.bounded(error, () => this.within(error, () => this.level(error, 'record', nested))) as ErrorRecord;
  }

  /** An error as a text for a log line. */
  describe(thrown: unknown): string {
    const shown = this.bounded(thrown, () => this.of(thrown, 'log'));
    try {
      return isRecord(shown) ? `${shown.name}: ${shown.message}` : String(shown);
    } catch {
      return `a value of the type ${typeof shown}, of which no text can be made`;
    }
  }

  /** Masks what goes into lines and their details. */
  logger(logger: Logger): Logger {
    const tell =
      (method: keyof Logger) =>
      (message: string, ...details: [details?: object]): void =>
        logger[method](maskText(message), ...(details.map((each) => each && this.inDetails(each)) as [object?]));
    return { debug: tell('debug'), info: tell('info'), warn: tell('warn'), error: tell('error') };
  }

  private inDetails(details: object): object {
    const shown = (value: unknown): unknown => {
      if (typeof value === 'string') return maskText(value);
      return isError(value) ? thrownFrom(this.bounded(value, () => this.of(value, 'log'))) : value;
    };
    return Object.fromEntries(Object.entries(details).map(([key, value]) => [key, shown(value)]));
  }

  /** What cannot be read at all becomes texts. */
  private bounded(thrown: unknown, make: () => unknown): unknown {
    try {
      return make();
    } catch {
      const { name, message, stack } = bareRecord(thrown);
      return { name, message: maskText(message), stack: maskText(stack) };
    }
  }

  private of(thrown: unknown, use: 'record' | 'log'): unknown {
    if (typeof thrown === 'string') return this.other(thrown, this.text(thrown), use);
    if (typeof thrown !== 'object' || thrown === null) return thrown;
    if (this.open.has(thrown)) return '[Circular]';
    if (this.open.size >= deepest) return '[Error]';
    return this.within(thrown, () =>
      isError(thrown)
        ? this.level(thrown, use, (value) => this.of(value, use))
        : this.other(thrown, this.surface(thrown, use), use),
    );
  }

  /** Of something that is no error: its plain properties, or those of its members. */
  private surface(thrown: object, use: 'record' | 'log'): unknown {
    const kind = recipeFor(thrown)?.kind;
    if (kind === 'record') return this.kept(thrown, {}, this.keep);
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
    if (isError(each) || this.open.has(each) || this.open.size >= deepest) return this.of(each, use);
    return this.within(each, () => this.surface(each, use));
  }

  private within<T>(thrown: object, walk: () => T): T {
    this.open.add(thrown);
    try {
      return walk();
    } finally {
      this.open.delete(thrown);
    }
  }

  private level(error: Error, use: 'record' | 'log', nested: (value: unknown) => unknown): ErrorRecord {
    const own = errorFields(error, (key) => readSafely(error, key));
    const errors: Record<string, unknown> = {};
    if ('cause' in own) errors.cause = nested(own.cause);
    if (Array.isArray(own.errors)) errors.errors = own.errors.map(nested);
    for (const key of Object.keys(errors)) delete own[key];
    const record: Record<string, unknown> = {};
    for (const key of ['name', 'message', 'stack'] as const) record[key] = this.text(own[key]);
    if (classKey in own) record[classKey] = own[classKey];
    // As an object it may be anything.
    if ('code' in own && isPlain(own.code)) record.code = own.code;
    const { redact } = this.options;
    const whole = this.kept(own, redact ? record : Object.assign(record, errors), this.keepOf(error)) as ErrorRecord;
    return redact ? Object.assign(this.redacted(whole, use), errors) : whole;
  }

  private keepOf(error: Error): Kept | 'whole' {
    if (isOurs(error)) return ofOurs;
    const keep = classWithPrototype(Object.getPrototypeOf(error) as object)?.keep;
    return keep === undefined ? this.keep : keptBy(this.options.keep, keep);
  }

  /** The plain properties of an object and those of `keep`, beside those that the record has already. */
  private kept(from: object, record: Record<string, unknown>, keep: Kept | 'whole') {
    const omitted: string[] = [];
    for (const key of Object.keys(from)) {
      if (Object.hasOwn(record, key) || key === '__proto__') continue;
      const value = readSafely(from, key);
      const node = isNothing(value) ? undefined : keep === 'whole' ? keep : keep.get(key);
      if (isNothing(value)) omitted.push(key);
      else if (isSecretName(key)) record[key] = masked(value);
      else if (isPlain(value) || node === 'whole') record[key] = this.copy(value);
      else if (node) record[key] = this.parts(value as object, node);
      else omitted.push(key);
    }
    const earlier = record[omittedKey];
    if (omitted.length > 0)
      record[omittedKey] = Array.isArray(earlier) ? [...new Set([...earlier, ...omitted])] : omitted.slice(0, maxNames);
    return record;
  }

  private parts(from: object, keep: Kept): object {
    const record: Record<string, unknown> = {};
    for (const [key, node] of keep) {
      const value = readSafely(from, key);
      if (value === undefined || isNothing(value)) continue;
      if (isSecretName(key)) record[key] = masked(value);
      else record[key] = node === 'whole' || isPlain(value) ? this.copy(value) : this.parts(value as object, node);
    }
    return record;
  }

  /** A copy with secrets masked, of everything that can be stored; whatever else it meets it leaves to the codec. */
  private copy(value: unknown, seen = new Map<object, unknown>(), depth = 0): unknown {
    if (typeof value === 'string') return this.text(value);
    if (typeof value !== 'object' || value === null || value instanceof Date) return value;
    const known = seen.get(value);
    if (known !== undefined) return known;
    if (depth > deepest) return '[Object]';
    const member = (each: unknown): unknown => this.copy(each, seen, depth + 1);
    const named = (key: unknown, each: unknown): unknown =>
      typeof key === 'string' && isSecretName(key) ? masked(each) : member(each);
    if (isError(value)) {
      const error = thrownFrom(this.of(value, 'record'));
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
    // A class that says itself how it is stored has said so.
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

  private text(text: string): string {
    if (text.length <= this.longest) return maskText(text);
    return `${maskText(text.slice(0, this.longest))}… (cut: it has ${text.length} characters)`;
  }

  /** `redact` for something that was thrown and is no error. */
  private other(thrown: unknown, value: unknown, use: 'record' | 'log'): unknown {
    if (!this.options.redact) return value;
    const message = typeof value === 'string' ? value : 'Something that is not an Error was thrown.';
    const record = this.redacted({ name: 'NonError', message, stack: '', value }, use);
    if (typeof thrown === 'string' && 'value' in record && record.value === value) return record.message;
    return 'value' in record ? record.value : record;
  }

  private redacted(record: ErrorRecord, use: 'record' | 'log'): ErrorRecord {
    try {
      const result: unknown = this.options.redact?.({ ...record }, use);
      // The copy is what counts: it has no texts that are only inherited.
      const copy: unknown = { ...(result as object) };
      if (isRecord(copy) && !isError(result)) return copy;
      // A rejection that nobody handles would end the process.
      Promise.resolve(result).catch(() => {});
      return withheld('`redact` did not return an error record');
    } catch (failure) {
      // Its message may quote what it was to hide.
      return withheld(`\`redact\` threw ${isError(failure) ? maskText(failure.name) : typeof failure}`);
    }
  }
}

/** Stands for an error of which nothing may be shown. */
function withheld(why: string): ErrorRecord {
  const message =
    `It failed, and its error is withheld: ${why}. Correct the function \`redact\` of launch({ errors }), and look ` +
    'for the error where it was thrown.';
  return errorFields(new HoldfastError('ERROR_WITHHELD', message));
}

/** The details of our own errors are made to be stored. */
const ofOurs: Kept = new Map([['details', 'whole' as const]]);

function isOurs(error: Error): boolean {
  return isHoldfastError(error) || ['HoldfastError', 'FatalError'].includes(String(readSafely(error, 'name')));
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Date) return true;
  return Array.isArray(value) && value.every((each) => !isNothing(each) && !Array.isArray(each) && isPlain(each));
}

function masked(value: unknown): unknown {
  return value === undefined || value === null || value === '' || typeof value === 'boolean' ? value : mask;
}

/** `['Authorization', 'Bearer ...', 'Host', ...]`, as Node lists raw headers; or a pair of them. */
function isHeaderValue(list: object, index: number): boolean {
  const name: unknown = (list as readonly unknown[])[index - 1];
  return typeof name === 'string' && isSecretHeader(name);
}

/** `{ name: 'authorization', value: '...' }` */
function isValueOfPair(record: object, key: string): boolean {
  if (key !== 'value') return false;
  const name = readSafely(record, 'name') ?? readSafely(record, 'key');
  return typeof name === 'string' && isSecretName(name);
}

/** Stands for the value of a getter that throws. */
const unreadable = Symbol('unreadable');

function readSafely(from: object, key: string): unknown {
  try {
    return Reflect.get(from, key);
  } catch {
    return unreadable;
  }
}

/** Whether there is no value that any format could store. */
function isNothing(value: unknown): boolean {
  return typeof value === 'function' || typeof value === 'symbol';
}

function isRecord(value: unknown): value is ErrorRecord {
  const { name, message, stack } = (value ?? {}) as Partial<ErrorRecord>;
  return [name, message, stack].every((text) => typeof text === 'string') && !isError(value);
}
