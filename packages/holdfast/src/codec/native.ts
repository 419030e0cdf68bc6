/**
 * The native format, `js_superjson`: superjson with a marker, as DBOS's TypeScript SDK stores it. Almost anything in
 * JavaScript comes back as it was; flatten.ts and revive.ts say how, recipes.ts what.
 *
 * Also reads the rows of DBOS SDKs from before superjson, which have no marker and no name in the column.
 */
import { isError } from '../model/errors.js';
import { errorRecord, thrownFrom } from './error-record.js';
import { flatten, type Meta } from './flatten.js';
import type { Codec } from './format.js';
import { hasEscapes, isPlainJson } from './plain.js';
import { type Root, unserializable, ValuePath } from './refusal.js';
import { revive, unreadable } from './revive.js';
import { salvage } from './salvage.js';

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
  decode: read,
  encodeArguments: (args, what) => write(args, what, 'args'),
  decodeArguments: (text) => {
    const args = read(text);
    if (!Array.isArray(args)) throw unreadable(name, text, new Error('the arguments are not an array'));
    return args;
  },
  encodeError: (error) => {
    try {
      return write(isError(error) ? errorRecord(error) : error, 'The error', 'value');
    } catch {
      return write(salvage(error, isStorable), 'The error', 'value');
    }
  },
  decodeError: (text) => thrownFrom(read(text)),
};

function write(value: unknown, what: string, root: Root): string {
  if (value === undefined) return undefinedText;
  try {
    if (isPlainJson(value)) {
      const json = JSON.stringify(value);
      if (!hasEscapes(json)) return head + json + tail;
    }
    const { json, meta } = flatten(value, new ValuePath(what, root));
    const text = JSON.stringify(json);
    return meta === undefined ? head + text + tail : `${head}${text},"meta":${JSON.stringify(meta)}${tail}`;
  } catch (error) {
    throw unserializable(what, error);
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
  if (text === undefinedText) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    if (!isMarked(parsed)) return readUnmarked(text, parsed);
    return parsed.meta === undefined ? parsed.json : revive(parsed.json, parsed.meta);
  } catch (error) {
    throw unreadable(name, text, error);
  }
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
