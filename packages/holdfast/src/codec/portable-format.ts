/**
 * The portable format, `portable_json`: plain JSON that DBOS SDKs of every language read and write.
 *
 * - Converted: Date and BigInt to strings, Set to an array, Map to an object, undefined to null. An undefined member
 *   of an object is omitted. An object that occurs twice is written twice. -0 is written as 0.
 * - Refused, because JSON would change them silently: NaN, Infinity, Buffers and other bytes, RegExp, URL, Errors
 *   inside values, class instances (registered or not), cycles.
 *
 * A converted value is read in its converted form.
 */
import { isError } from '../model/errors.js';
import { isErrorRecord, toThrown } from './error-record.js';
import { refuseUnknown } from './flatten.js';
import type { Codec, CodecSettings, Encoded } from './format.js';
import { fits } from './limits.js';
import { hasEscapes, isPlainJson } from './plain.js';
import { recipeFor } from './recipes.js';
import { type Root, unserializable, ValuePath } from './refusal.js';
import { unreadable } from './revive.js';
import { cut, cutLengths, salvage, textOnlyRecord } from './salvage.js';

export const portableName = 'portable_json';

/**
 * The maximum number of nodes inside repeated objects. Without a limit, n levels of sharing would write 2^n copies.
 */
const maxRepeatedNodes = 1_000_000;

/** The error name for a thrown value that is not an Error. The format can store only records of errors. */
const nonError = 'NonError';

interface PortableArguments {
  readonly positionalArgs?: readonly unknown[];
  readonly namedArgs?: Readonly<Record<string, unknown>>;
}

interface PortableError {
  name: string;
  message: string;
  code?: unknown;
  data?: unknown;
}

const formats = {
  name: portableName,
  encode: (value, what) => write(value, what, 'value'),
  encodeAndRead: (value, what) => {
    const text = write(value, what, 'value');
    return { text, value: read(text) };
  },
  decode: read,
  encodeArguments: (args, what) => `{"positionalArgs":${write(args, what, 'args')}}`,
  decodeArguments: (text) => {
    const record = read(text);
    const isRecord = typeof record === 'object' && record !== null && !Array.isArray(record);
    const { positionalArgs = [], namedArgs } = (isRecord ? record : {}) as PortableArguments;
    if (!isRecord || !Array.isArray(positionalArgs)) {
      throw unreadable(portableName, text, new Error('the arguments are not {"positionalArgs":[…]}'));
    }
    // Keyword arguments of Python become one options object as the last argument.
    return namedArgs && Object.keys(namedArgs).length > 0 ? [...positionalArgs, namedArgs] : positionalArgs;
  },
  decodeError: readError,
} satisfies Partial<Codec>;

export function portableCodec({ errors, maxBytes }: CodecSettings): Codec {
  // The format has a field for `data`, which readers in other languages use.
  const withData = errors.keeping('data');
  const attempt = (make: () => PortableError): Encoded | undefined => {
    try {
      const made = writeError(make());
      return fits(made.text, maxBytes) ? made : undefined;
    } catch {
      return undefined;
    }
  };
  return {
    ...formats,
    encodeError: (error) => {
      const stored = withData.record(error);
      // The check does not create the error, because the result of `redact` may contain a cycle.
      const isRecord = isError(stored) || isErrorRecord(stored);
      let made = attempt(() => errorRecord(stored, isRecord)) ?? attempt(() => salvageRecord(stored));
      for (const length of cutLengths) made ??= attempt(() => errorRecord(cut(stored, length), isRecord));
      return made ?? writeError(pickFields(textOnlyRecord(stored, maxBytes)));
    },
  };
}

function writeError(record: PortableError): Encoded {
  const text = write(record, 'The error', 'value');
  return { text, value: readError(text) };
}

function readError(text: string): unknown {
  const record = read(text);
  if (!isPortableError(record)) return record;
  if (record.name === nonError && 'data' in record) return record.data;
  const { data, ...fields } = record;
  const stack = `${record.name}: ${record.message}`;
  if (isOurs(record)) return toThrown({ ...fields, stack, details: data ?? {} });
  return toThrown(data === undefined ? { ...fields, stack } : { ...fields, stack, data });
}

function errorRecord(stored: unknown, isRecord: boolean): PortableError {
  if (isRecord) return pickFields(stored as object);
  return { name: nonError, message: describe(stored), data: stored ?? null };
}

function pickFields(fields: object): PortableError {
  const { name, message, code, data, details } = fields as Partial<PortableError> & { details?: unknown };
  const record: PortableError = { name: String(name), message: String(message) };
  if (typeof code === 'string' || typeof code === 'number') record.code = code;
  if (data !== undefined) record.data = data;
  else if (isOurs(record) && details !== undefined) record.data = details;
  return record;
}

function salvageRecord(error: unknown): PortableError {
  const kept = salvage(error, isStorable);
  if (!isPortableError(kept)) return { name: nonError, message: describe(kept), data: kept };
  const record = pickFields(kept);
  return isStorable(record) ? record : { name: record.name, message: record.message };
}

function isPortableError(value: unknown): value is PortableError {
  const { name, message } = (value ?? {}) as Partial<PortableError>;
  return typeof name === 'string' && typeof message === 'string';
}

function isOurs({ name, code }: PortableError): boolean {
  return (name === 'HoldfastError' || name === 'FatalError') && typeof code === 'string';
}

function describe(thrown: unknown): string {
  return typeof thrown === 'string' ? thrown : `The code threw a value that is not an Error (${typeof thrown})`;
}

function isStorable(value: unknown): boolean {
  try {
    write(value, 'The value', 'value');
    return true;
  } catch {
    return false;
  }
}

function write(value: unknown, what: string, root: Root): string {
  try {
    if (isPlainJson(value)) {
      const text = JSON.stringify(value);
      if (!hasEscapes(text)) return text;
    }
    return JSON.stringify(new Conversion(new ValuePath(what, root)).walk(value));
  } catch (error) {
    throw unserializable(what, error);
  }
}

function read(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw unreadable(portableName, text, error);
  }
}

class Conversion {
  private readonly seen = new Set<object>();
  /** The objects that contain the current place, with their depth. */
  private readonly ancestors = new Map<object, number>();
  /** How many repeated objects contain the current place. */
  private openRepetitions = 0;
  private repeatedNodes = 0;

  constructor(private readonly path: ValuePath) {}

  walk(value: unknown): unknown {
    if (this.openRepetitions > 0 && ++this.repeatedNodes > maxRepeatedNodes) {
      this.path.refuse('repeats the same objects too often', 'Store each object once, and refer to it by an ID.');
    }
    switch (typeof value) {
      case 'string':
        return this.path.checkText(value);
      case 'number':
        if (Number.isFinite(value)) return value;
        return this.path.refuse(`is ${value}, which JSON does not have`, 'Store null or a string instead.');
      case 'boolean':
        return value;
      case 'undefined':
        return null;
      case 'bigint':
        return value.toString();
      case 'object':
        return value === null ? null : this.walkObject(value);
      default:
        return refuseUnknown(value, this.path);
    }
  }

  private walkObject(value: object): unknown {
    const openDepth = this.ancestors.get(value);
    if (openDepth !== undefined) {
      this.path.refuse(`refers back to ${this.path.upTo(openDepth)}`, 'JSON has no cycles. Store an ID instead.');
    }
    const repetitions = this.seen.has(value) ? 1 : 0;
    this.seen.add(value);
    this.ancestors.set(value, this.path.depth);
    this.openRepetitions += repetitions;
    const json = this.convert(value);
    this.openRepetitions -= repetitions;
    this.ancestors.delete(value);
    return json;
  }

  private convert(value: object): unknown {
    const recipe = recipeFor(value);
    switch (recipe?.kind) {
      case 'record':
        return this.walkMembers(Object.entries(value));
      case 'array':
        this.path.checkArray(value as unknown[]);
        return this.walkElements(value as unknown[], '');
      case 'set':
        return this.walkElements([...(value as Set<unknown>)], '.values()');
      case 'map':
        return this.walkMap(value as Map<unknown, unknown>);
      case undefined:
        return refuseUnknown(value, this.path);
      default:
        return value instanceof Date && !Number.isNaN(value.getTime()) ? value.toISOString() : this.refuseClass(value);
    }
  }

  private walkMap(map: ReadonlyMap<unknown, unknown>): unknown {
    for (const key of map.keys()) {
      if (typeof key === 'string') continue;
      this.path.refuse(`is a Map with a key of the type ${typeof key}`, 'Portable JSON allows only string keys.');
    }
    return this.walkMembers([...(map as ReadonlyMap<string, unknown>)], true);
  }

  private walkMembers(entries: readonly (readonly [string, unknown])[], ofMap = false): unknown {
    const json: Record<string, unknown> = {};
    for (const [key, member] of entries) {
      this.path.checkKey(key);
      if (member === undefined) continue;
      this.path.push(key, ofMap ? `.get(${JSON.stringify(key)})` : undefined);
      json[key] = this.walk(member);
      this.path.pop();
    }
    return json;
  }

  private walkElements(elements: readonly unknown[], label: string): unknown {
    const json: unknown[] = [];
    for (let i = 0; i < elements.length; i++) {
      this.path.push(i, `${label}[${i}]`);
      json.push(this.walk(elements[i]));
      this.path.pop();
    }
    return json;
  }

  private refuseClass(value: object): never {
    const invalidDate = value instanceof Date;
    this.path.refuse(
      invalidDate ? 'is an Invalid Date' : `is a ${value.constructor.name}, which portable JSON cannot hold`,
      "Store plain data (bytes as base64 text), or use serialization: 'native'.",
    );
  }
}
