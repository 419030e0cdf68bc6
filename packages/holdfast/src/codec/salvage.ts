/**
 * Reduces an error that cannot be stored whole. A failure must be stored whatever it contains: HTTP clients attach
 * sockets and request objects to their errors, and without the error nobody could see why a workflow failed.
 * Functions and symbols are omitted. An unknown object becomes its class name in brackets. Characters that a database
 * cannot store (NUL, half a surrogate pair) become visible escapes.
 */

import { isError } from '../model/errors.js';
import { type ErrorRecord, errorFields, omittedKey } from './error-record.js';
import { recipeFor } from './recipes.js';

/**
 * The maximum depth. It is enough for `error.response.data.errors[0].path` of an HTTP client. Deeper objects are
 * replaced by their class name.
 */
const maxDepth = 8;

/**
 * Returns a copy of the thrown value that can be stored: an error record, or a value that contains only parts that
 * `isStorable` accepts. Never throws.
 */
export function salvage(thrown: unknown, isStorable: (value: unknown) => boolean): unknown {
  const kept = keep(thrown, isStorable, []);
  if (typeof kept === 'object' || typeof thrown === 'string') return kept;
  const message = `The code threw a value that cannot be stored: ${describe(thrown)}`;
  return { name: 'NonError', message, stack: `NonError: ${message}` };
}

/** The lengths, in characters, to which the texts of an oversized error are cut. The first length that fits is used. */
export const cutLengths: readonly number[] = [10_000, 500];

const maxProperties = 30;
const maxErrors = 10;

/**
 * Returns a copy of an error record, or of a result of {@link salvage}, with shortened texts and lists. Never throws.
 */
export function cut(value: unknown, length: number, depth = 0): unknown {
  if (typeof value === 'string') return shorten(clean(value), length);
  if (typeof value === 'bigint') return shorten(String(value), length);
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  if (Array.isArray(value)) return value.slice(0, maxErrors).map((each) => cut(each, length, depth + 1));
  const record: Record<string, unknown> = {};
  const omitted: string[] = [];
  for (const key of Object.keys(value)) {
    const member = readSafely(value, key);
    const isNested = typeof member === 'object' && member !== null && !(member instanceof Date);
    const isKept = !isNested || ((key === 'cause' || key === 'errors') && depth === 0);
    if (key === '__proto__' || member === skipped || typeof member === 'function') continue;
    if (isKept && Object.keys(record).length < maxProperties) record[clean(key)] = cut(member, length, depth + 1);
    else if (omitted.length < maxProperties) omitted.push(shorten(clean(key), length));
  }
  return omitted.length > 0 ? { ...record, [omittedKey]: omitted } : record;
}

function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${clean(text.slice(0, length))}… (cut: it has ${text.length} characters)`;
}

/** The maximum length of a text in {@link textOnlyRecord}, in characters. */
const bareLength = 10_000;

/** The last resort: name, message and stack as plain texts. Reading the record runs no user code. Never throws. */
export function textOnlyRecord(thrown: unknown, maxBytes = Number.POSITIVE_INFINITY): ErrorRecord {
  const length = Math.max(100, Math.min(bareLength, Math.floor(maxBytes / 20)));
  const text = (key: string, otherwise: string): string => {
    const value = typeof thrown === 'object' && thrown !== null ? readSafely(thrown, key) : undefined;
    return typeof value === 'string' ? clean(value.slice(0, length)) : otherwise;
  };
  const name = text('name', 'NonError');
  const message = text('message', `The code threw a value that cannot be stored: ${describe(thrown).slice(0, length)}`);
  return { name, message, stack: text('stack', `${name}: ${message}`) };
}

/** Marks a member that is omitted. */
const skipped = Symbol('skipped');

function keep(value: unknown, isStorable: (value: unknown) => boolean, ancestors: readonly object[]): unknown {
  try {
    if (typeof value === 'string') return clean(value);
    if (typeof value === 'function' || typeof value === 'symbol') return skipped;
    if (typeof value !== 'object' || value === null) return value;
    if (ancestors.includes(value)) return '[Circular]';
    if (ancestors.length >= maxDepth) return `[${className(value)}]`;
    const path = [...ancestors, value];
    if (isError(value))
      return keepMembers(
        errorFields(value, (key) => readSafely(value, key)),
        isStorable,
        path,
      );
    if (Array.isArray(value)) {
      return value.map((member) => keep(member, isStorable, path)).filter((member) => member !== skipped);
    }
    if (recipeFor(value)?.kind === 'record') return keepMembers(value, isStorable, path);
    return isStorable(value) ? value : `[${className(value)}]`;
  } catch {
    return skipped;
  }
}

function keepMembers(record: object, isStorable: (value: unknown) => boolean, path: readonly object[]): object {
  const kept: Record<string, unknown> = {};
  for (const key of Object.keys(record)) {
    if (key === '__proto__') continue;
    const member = keep(readSafely(record, key), isStorable, path);
    if (member !== skipped) kept[clean(key)] = member;
  }
  return kept;
}

/** Omits the value of a getter that throws. */
function readSafely(from: object, key: string): unknown {
  try {
    return Reflect.get(from, key);
  } catch {
    return skipped;
  }
}

/** Replaces the characters that no database can store by JavaScript escapes, so that a reader sees them. */
function clean(text: string): string {
  return text.replaceAll('\0', '\\u0000').replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`);
}

function className(value: object): string {
  const Class: unknown = value.constructor;
  return typeof Class === 'function' && Class.name !== '' ? clean(Class.name) : 'Object';
}

function describe(value: unknown): string {
  try {
    if (typeof value === 'function') return `a function ${clean(value.name)}`.trimEnd();
    return typeof value === 'object' && value !== null ? `[${className(value)}]` : clean(String(value));
  } catch {
    return `a value of the type ${typeof value}`;
  }
}
