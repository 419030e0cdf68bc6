/**
 * Values to text and back. Every value that a workflow stores goes through a {@link Codec}; which one is written in
 * the row's `serialization` column, and one value there covers the inputs, output and error of a workflow.
 *
 *   native.ts    `js_superjson`, the default; a NULL in the column means it too, unless the app has its own serializer
 *   portable.ts  `portable_json`, for workflows shared with other languages
 *   custom.ts    the app's own serializer, under its name
 *
 * Promises: a value comes back equal to what was stored, or is refused with UNSERIALIZABLE before anything is written,
 * naming the place in it; what is handed out can be read (see {@link Codec}); a text that cannot be read is
 * UNREADABLE_VALUE, never a wrong value. The two built-in formats
 * answer at once; only a custom serializer may return promises.
 */
import { HoldfastError } from '../model/errors.js';
import { customCodec } from './custom.js';
import type { Codec, CodecSettings, Serializer } from './format.js';
import { checkMaxValueBytes, defaultMaxValueBytes, limited } from './limits.js';
import { nativeCodec, nativeName } from './native.js';
import { portableCodec, portableName } from './portable.js';
import { checkStoredErrorOptions, type StoredErrorOptions, StoredErrors } from './stored-errors.js';

export { type ClassOptions, registerClass } from './classes.js';
export type { Codec, Encoded, Serializer } from './format.js';
export { checkMaxValueBytes } from './limits.js';
export type { StoredError, StoredErrorOptions } from './stored-errors.js';

/** The built-in native format, which gives back what it was given: a value need not be read again to be used. */
export const nativeCodecName = nativeName;

export interface Codecs {
  /** For what only this app reads: the app's own serializer if it has one, else `js_superjson`. */
  readonly native: Codec;
  readonly portable: Codec;
  /** The one that wrote a row, or UNKNOWN_SERIALIZER. */
  for(serialization: string | null): Codec;
  /** What of errors is stored and logged. */
  readonly errors: StoredErrors;
}

/** Formats that we know by name only. */
const foreign: Readonly<Record<string, string>> = {
  py_pickle: 'DBOS for Python',
  DBOS_JSON: 'DBOS for Go',
  DBOS_GOB: 'DBOS for Go',
  java_jackson: 'DBOS for Java',
};

export interface CodecOptions {
  readonly serializer?: Serializer | undefined;
  readonly errors?: StoredErrorOptions | undefined;
  /** Most bytes of one value in the database. */
  readonly maxValueBytes?: number | undefined;
}

/** The same, from the options of `launch` or `connect`, checked. */
export function codecsOf(what: string, options: CodecOptions): Codecs {
  checkMaxValueBytes(what, options.maxValueBytes);
  checkStoredErrorOptions(what, options.errors);
  return createCodecs(options);
}

export function createCodecs(options: CodecOptions = {}): Codecs {
  const { serializer, maxValueBytes: maxBytes = defaultMaxValueBytes } = options;
  const errors = new StoredErrors(options.errors, maxBytes);
  const settings: CodecSettings = { errors, maxBytes };
  const native = limited(nativeCodec(settings), maxBytes);
  const portable = limited(portableCodec(settings), maxBytes);
  const known = new Map([native, portable].map((codec) => [codec.name, codec]));
  const builtIn = [nativeName, portableName];
  const chosen = !serializer ? native : limited(customCodec(serializer, builtIn, settings), maxBytes);
  known.set(chosen.name, chosen);
  return {
    native: chosen,
    portable,
    for: (serialization) => {
      if (serialization === null) return chosen;
      return known.get(serialization) ?? refuseFormat(serialization, [...known.keys()]);
    },
    errors,
  };
}

function refuseFormat(name: string, known: readonly string[]): never {
  const writer = foreign[name];
  const advice =
    writer === undefined
      ? 'Launch with the serializer of that name: launch({ serializer }).'
      : `It is the native format of ${writer}; let the writer use the portable format.`;
  throw new HoldfastError(
    'UNKNOWN_SERIALIZER',
    `A stored value is in the format "${name}", and this app reads ${known.join(', ')}. ${advice}`,
    { details: { serialization: name, known } },
  );
}
