/**
 * What can be stored of an error that cannot be stored whole. A failure must be recorded whatever it carries: HTTP
 * clients hang sockets and request objects on their errors, and losing the error over them would lose the reason why
 * a workflow failed. Functions and symbols are dropped, strange objects become their name in brackets, and what a
 * database cannot hold of a text (NUL, half a surrogate pair) becomes a visible escape.
 */

import { isError } from '../model/errors.js';
import { type ErrorRecord, errorFields, omittedKey } from './error-record.js';
import { recipeFor } from './recipes.js';

/** Enough for an HTTP client's `error.response.data.errors[0].path`; deeper is somebody's object graph. */
const deepest = 8;

/**
 * A copy of what was thrown that can be stored: an error record, or a value that holds only what `isStorable` accepts.
 * Never throws.
 */
export function salvage(thrown: unknown, isStorable: (value: unknown) => boolean): unknown {
  const kept = keep(thrown, isStorable, []);
  if (typeof kept === 'object' || typeof thrown === 'string') return kept;
  const message = `A value that cannot be stored was thrown: ${describe(thrown)}`;
  return { name: 'NonError', message, stack: `NonError: ${message}` };
}

/** Most characters that are kept of the texts of an error that is too large, from the first attempt to the last. */
export const cutLengths: readonly number[] = [10_000, 500];

const maxProperties = 30;
const maxErrors = 10;

/** A copy of what {@link salvage} or a record of an error came to, of which only the beginning is left. Never throws. */
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
    if (key === '__proto__' || member === dropped || typeof member === 'function') continue;
    if (isKept && Object.keys(record).length < maxProperties) record[clean(key)] = cut(member, length, depth + 1);
    else if (omitted.length < maxProperties) omitted.push(shorten(clean(key), length));
  }
  return omitted.length > 0 ? { ...record, [omittedKey]: omitted } : record;
}

function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${clean(text.slice(0, length))}… (cut: it has ${text.length} characters)`;
}

/** Most characters that are kept of a text where nothing but texts is. */
const bareLength = 10_000;

/** The last resort: name, message and stack as plain texts, in reading which no code of the user takes part. Never throws. */
export function bareRecord(thrown: unknown, maxBytes = Number.POSITIVE_INFINITY): ErrorRecord {
  const length = Math.max(100, Math.min(bareLength, Math.floor(maxBytes / 20)));
  const text = (key: string, otherwise: string): string => {
    const value = typeof thrown === 'object' && thrown !== null ? readSafely(thrown, key) : undefined;
    return typeof value === 'string' ? clean(value.slice(0, length)) : otherwise;
  };
  const name = text('name', 'NonError');
  const message = text('message', `A value that cannot be stored was thrown: ${describe(thrown).slice(0, length)}`);
  return { name, message, stack: text('stack', `${name}: ${message}`) };
}

/** Stands for a member that is left out. */
const dropped = Symbol('dropped');

function keep(value: unknown, isStorable: (value: unknown) => boolean, ancestors: readonly object[]): unknown {
  try {
    if (typeof value === 'string') return clean(value);
    if (typeof value === 'function' || typeof value === 'symbol') return dropped;
    if (typeof value !== 'object' || value === null) return value;
    if (ancestors.includes(value)) return '[Circular]';
    if (ancestors.length >= deepest) return `[${className(value)}]`;
    const within = [...ancestors, value];
    if (isError(value))
      return keepMembers(
        errorFields(value, (key) => readSafely(value, key)),
        isStorable,
        within,
      );
    if (Array.isArray(value)) {
      return value.map((member) => keep(member, isStorable, within)).filter((member) => member !== dropped);
    }
    if (recipeFor(value)?.kind === 'record') return keepMembers(value, isStorable, within);
    return isStorable(value) ? value : `[${className(value)}]`;
  } catch {
    return dropped;
  }
}

function keepMembers(record: object, isStorable: (value: unknown) => boolean, within: readonly object[]): object {
  const kept: Record<string, unknown> = {};
  for (const key of Object.keys(record)) {
    if (key === '__proto__') continue;
    const member = keep(readSafely(record, key), isStorable, within);
    if (member !== dropped) kept[clean(key)] = member;
  }
  return kept;
}

/** A getter that throws has no value to keep. */
function readSafely(from: object, key: string): unknown {
  try {
    return Reflect.get(from, key);
  } catch {
    return dropped;
  }
}

/** With escapes, as JavaScript writes them, in the place of what no database can hold: whoever reads it sees what was there. */
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
