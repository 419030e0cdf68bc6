/**
 * The native format, `js_superjson`: superjson with a marker, as the TypeScript SDK of DBOS stores it. Almost every
 * JavaScript value is read as it was. flatten.ts writes the format, revive.ts reads it, and recipes.ts lists the
 * types.
 *
 * This codec also reads rows that DBOS SDKs wrote before they used superjson. These rows have no marker and no format
 * name in the `serialization` column.
 */

import { type ErrorRecord, toThrown } from './error-record.js';
import { flatten, type Meta } from './flatten.js';
import { type Codec, type CodecSettings, type Encoded, isPrimitive } from './format.js';
import { fits } from './limits.js';
import { hasEscapes, isPlainJson } from './plain.js';
import { notReadBack, type Root, unserializable, ValuePath } from './refusal.js';
import { revive, unreadable } from './revive.js';
import { cut, cutLengths, salvage, textOnlyRecord } from './salvage.js';

export const nativeName = 'js_superjson';
const head = '{"json":';
const tail = ',"__dbos_serializer":"superjson"}';
/** The text of `undefined`, which most steps return. */
const undefinedText = `${head}null,"meta":{"values":["undefined"],"v":1}${tail}`;

interface Stored {
  readonly json?: unknown;
  readonly meta?: Meta;
}

/** Returns the fields to store for an error inside a value. */
type Fields = (error: Error) => ErrorRecord;

export function nativeCodec({ errors, maxBytes }: CodecSettings): Codec {
  const fields: Fields = (error) => errors.fields(error);
  const isStorable = (value: unknown): boolean => succeeds(() => write(value, 'The value', 'value', fields));
  const attempt = (make: () => unknown): Encoded | undefined => {
    try {
      const made = writeError(make(), fields);
      return fits(made.text, maxBytes) ? made : undefined;
    } catch {
      return undefined;
    }
  };
  return {
    name: nativeName,
    encode: (value, what) => write(value, what, 'value', fields),
    encodeAndRead: (value, what) => writeAndRead(value, what, fields),
    decode: read,
    encodeArguments: (args, what) => write(args, what, 'args', fields),
    decodeArguments: (text) => {
      const args = read(text);
      if (!Array.isArray(args)) throw unreadable(nativeName, text, new Error('the arguments are not an array'));
      return args;
    },
    encodeError: (error) => {
      const record = errors.record(error);
      let made = attempt(() => record) ?? attempt(() => salvage(record, isStorable));
      for (const length of cutLengths) made ??= attempt(() => cut(record, length));
      return made ?? writeError(textOnlyRecord(record, maxBytes), fields);
    },
    decodeError: (text) => toThrown(read(text)),
  };
}

function succeeds(attempt: () => unknown): boolean {
  try {
    attempt();
    return true;
  } catch {
    return false;
  }
}

function writeError(record: unknown, fields: Fields): Encoded {
  const { text, value } = writeAndRead(record, 'The error', fields);
  return { text, value: toThrown(value) };
}

function write(value: unknown, what: string, root: Root, fields: Fields): string {
  const made = toText(value, what, root, fields);
  if (typeof made === 'string') return made;
  readBack(made.text, what);
  return made.text;
}

function writeAndRead(value: unknown, what: string, fields: Fields): Encoded {
  const made = toText(value, what, 'value', fields);
  const text = typeof made === 'string' ? made : made.text;
  return { text, value: isPrimitive(value) ? value : readBack(text, what) };
}

/** A text that must be read once to know whether it can be read, because reading runs user code. */
interface Unproven {
  readonly text: string;
}

function toText(value: unknown, what: string, root: Root, fields: Fields): string | Unproven {
  if (value === undefined) return undefinedText;
  try {
    if (isPlainJson(value)) {
      const json = JSON.stringify(value);
      if (!hasEscapes(json)) return head + json + tail;
    }
    const { json, meta, needsUserCode } = flatten(value, new ValuePath(what, root), fields);
    const jsonText = JSON.stringify(json);
    const text =
      meta === undefined ? head + jsonText + tail : `${head}${jsonText},"meta":${JSON.stringify(meta)}${tail}`;
    return needsUserCode ? { text } : text;
  } catch (error) {
    throw unserializable(what, error);
  }
}

function readBack(text: string, what: string): unknown {
  try {
    return parse(text);
  } catch (cause) {
    throw notReadBack(what, cause, 'Change "from" of each registered class in it to accept the result of its "to".');
  }
}

function read(text: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw unreadable(nativeName, text, error);
  }
}

function parse(text: string): unknown {
  if (text === undefinedText) return undefined;
  const parsed: unknown = JSON.parse(text);
  if (!isMarked(parsed)) return readUnmarked(text, parsed);
  return parsed.meta === undefined ? parsed.json : revive(parsed.json, parsed.meta);
}

function isMarked(parsed: unknown): parsed is Stored {
  return (
    typeof parsed === 'object' &&
    parsed !== null &&
    (parsed as Record<string, unknown>).__dbos_serializer === 'superjson'
  );
}

/** Reads a row that DBOS wrote before it used superjson: plain JSON with three kinds of wrapped values. */
function readUnmarked(text: string, parsed: unknown): unknown {
  if (!text.includes('dbos_type') && !text.includes('"Buffer"')) return parsed;
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null) return value;
    const { type, data, dbos_type, dbos_data } = value as Record<string, unknown>;
    if (type === 'Buffer' && Array.isArray(data)) return Buffer.from(data as number[]);
    if (dbos_type === 'dbos_Date') return new Date(dbos_data as string);
    if (dbos_type === 'dbos_BigInt') return BigInt(dbos_data as string);
    return value;
  });
}
