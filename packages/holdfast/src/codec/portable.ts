/**
 * The portable format, `portable_json`: plain JSON that DBOS SDKs of every language read and write.
 *
 * It converts where the format has a form of its own for a value (Date and BigInt to text, Set to array, Map to
 * object, undefined to null, or to nothing as a member of an object), and refuses what JSON would change silently:
 * NaN and Infinity, Buffers and other bytes, RegExp, URL, Errors inside values, class instances (registered or not),
 * cycles. An object that occurs twice is written twice; -0 is written as 0. What was converted is read as what it
 * became.
 */
import { isError } from '../model/errors.js';
import { isErrorRecord, thrownFrom } from './error-record.js';
import { refuseUnknown } from './flatten.js';
import type { Codec, CodecSettings, Encoded } from './format.js';
import { fits } from './limits.js';
import { hasEscapes, isPlainJson } from './plain.js';
import { recipeFor } from './recipes.js';
import { type Root, unserializable, ValuePath } from './refusal.js';
import { unreadable } from './revive.js';
import { bareRecord, cut, cutLengths, salvage } from './salvage.js';

export const portableName = 'portable_json';

/** Nodes that repetitions may add: n levels of sharing would otherwise write 2^n copies. */
const repeatedNodes = 1_000_000;

/** The name under which something thrown that is no Error is stored: the format has records of errors only. */
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
    // Python's keyword arguments, as the options object that a TypeScript function takes in their place.
    return namedArgs && Object.keys(namedArgs).length > 0 ? [...positionalArgs, namedArgs] : positionalArgs;
  },
  decodeError: readError,
} satisfies Partial<Codec>;

export function portableCodec({ errors, maxBytes }: CodecSettings): Codec {
  // The format has a place for it, which readers in other languages know.
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
      // Not by making the error: what `redact` returned may lead back to itself.
      const isRecord = isError(stored) || isErrorRecord(stored);
      let made = attempt(() => errorRecord(stored, isRecord)) ?? attempt(() => salvageRecord(stored));
      for (const length of cutLengths) made ??= attempt(() => errorRecord(cut(stored, length), isRecord));
      return made ?? writeError(pickFields(bareRecord(stored, maxBytes)));
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
  if (isOurs(record)) return thrownFrom({ ...fields, stack, details: data ?? {} });
  return thrownFrom(data === undefined ? { ...fields, stack } : { ...fields, stack, data });
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
  return typeof thrown === 'string' ? thrown : `Something that is not an Error was thrown (${typeof thrown})`;
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
  /** Those that the walk is inside of, with how deep they are. */
  private readonly open = new Map<object, number>();
  /** How many repeated objects the walk is inside of. */
  private repetitions = 0;
  private repeated = 0;

  constructor(private readonly path: ValuePath) {}

  walk(value: unknown): unknown {
    if (this.repetitions > 0 && ++this.repeated > repeatedNodes) {
      this.path.refuse('repeats the same objects too often', 'Store each of them once, and refer to it by an ID.');
    }
    switch (typeof value) {
      case 'string':
        return this.path.checkText(value);
      case 'number':
        if (Number.isFinite(value)) return value;
        return this.path.refuse(`is ${value}, which JSON does not have`, 'Store null or a text instead.');
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
    const around = this.open.get(value);
    if (around !== undefined) {
      this.path.refuse(`leads back to ${this.path.upTo(around)}`, 'JSON has no cycles. Store an ID instead.');
    }
    const again = this.seen.has(value) ? 1 : 0;
    this.seen.add(value);
    this.open.set(value, this.path.depth);
    this.repetitions += again;
    const json = this.convert(value);
    this.repetitions -= again;
    this.open.delete(value);
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
      this.path.refuse(`is a Map with a key that is a ${typeof key}`, 'Portable JSON takes texts as keys only.');
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
