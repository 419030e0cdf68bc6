/**
 * The native format, `js_superjson`: superjson with a marker, as DBOS's TypeScript SDK stores it. Almost anything in
 * JavaScript comes back as it was; flatten.ts and revive.ts say how, recipes.ts what.
 *
 * Also reads the rows of DBOS SDKs from before superjson, which have no marker and no name in the column.
 */

import { isError } from '../model/errors.js';
import { errorRecord, thrownFrom } from './error-record.js';
import { flatten, type Meta } from './flatten.js';
import { type Codec, type Encoded, isPrimitive } from './format.js';
import { hasEscapes, isPlainJson } from './plain.js';
import { notReadBack, type Root, unserializable, ValuePath } from './refusal.js';
import { revive, unreadable } from './revive.js';
import { bareRecord, salvage } from './salvage.js';

const name = 'js_superjson';
const head = '{"json":';
const tail = ',"__dbos_serializer":"superjson"}';
/** What most steps return. */
const undefinedText = `${head}null,"meta":{"values":["undefined"],"v":1}${tail}`;

interface Stored {
  readonly json?: unknown;
  readonly meta?: Meta;
}

export const native: Codec = {
  name,
  encode: (value, what) => write(value, what, 'value'),
  encodeAndRead: writeAndRead,
  decode: read,
  encodeArguments: (args, what) => write(args, what, 'args'),
  decodeArguments: (text) => {
    const args = read(text);
    if (!Array.isArray(args)) throw unreadable(name, text, new Error('the arguments are not an array'));
    return args;
  },
  encodeError: (error) =>
    attemptError(() => (isError(error) ? errorRecord(error) : error)) ??
    attemptError(() => salvage(error, isStorable)) ??
    writeError(bareRecord(error)),
  decodeError: (text) => thrownFrom(read(text)),
};

function attemptError(make: () => unknown): Encoded | undefined {
  try {
    return writeError(make());
  } catch {
    return undefined;
  }
}

function writeError(record: unknown): Encoded {
  const { text, value } = writeAndRead(record, 'The error');
  return { text, value: thrownFrom(value) };
}

function write(value: unknown, what: string, root: Root): string {
  const made = toText(value, what, root);
  if (typeof made === 'string') return made;
  readBack(made.text, what);
  return made.text;
}

function writeAndRead(value: unknown, what: string): Encoded {
  const made = toText(value, what, 'value');
  const text = typeof made === 'string' ? made : made.text;
  return { text, value: isPrimitive(value) ? value : readBack(text, what) };
}

/** Whether it can be read depends on code of the user, and is known only once it was. */
interface Unproven {
  readonly text: string;
}

function toText(value: unknown, what: string, root: Root): string | Unproven {
  if (value === undefined) return undefinedText;
  try {
    if (isPlainJson(value)) {
      const json = JSON.stringify(value);
      if (!hasEscapes(json)) return head + json + tail;
    }
    const { json, meta, needsUserCode } = flatten(value, new ValuePath(what, root));
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
    throw notReadBack(what, cause, 'Let "from" of each registered class in it accept what its "to" returns.');
  }
}

function isStorable(value: unknown): boolean {
  try {
    write(value, 'The value', 'value');
    return true;
  } catch {
    return false;
  }
}

function read(text: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw unreadable(name, text, error);
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

/** DBOS before superjson: plain JSON with three kinds of wrapped values. */
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
