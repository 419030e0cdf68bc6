/**
 * The codecs of an app: which formats it has, and which one reads a row. Every value that a workflow stores goes through
 * a {@link Codec}. The `serialization` column of the row names the codec. One name covers the inputs, the output and the
 * error of a workflow.
 *
 *   native-format.ts    `js_superjson`, the default; NULL in the column also means it, unless the app has its own
 *                       serializer
 *   portable-format.ts  `portable_json`, for workflows that are shared with other languages
 *   custom-format.ts    the app's own serializer, under its name
 *
 * Promises:
 * - A value is read equal to the stored value, or is refused with UNSERIALIZABLE before anything is written. The
 *   error names the place in the value.
 * - A codec can read every text that it returns (see {@link Codec}).
 * - A text that cannot be read leads to UNREADABLE_VALUE, never to a wrong value.
 *
 * The two built-in formats return synchronously. Only a custom serializer may return promises.
 */
import { HoldfastError } from '../model/errors.js';
import { customCodec } from './custom-format.js';
import type { Codec, CodecSettings, Serializer } from './format.js';
import { checkMaxValueBytes, defaultMaxValueBytes, limited } from './limits.js';
import { nativeCodec, nativeName } from './native-format.js';
import { portableCodec, portableName } from './portable-format.js';
import { checkStoredErrorOptions, type StoredErrorOptions, StoredErrors } from './stored-errors.js';

export { type ClassOptions, registerClass } from './classes.js';
export type { Codec, Encoded, Serializer } from './format.js';
export { checkMaxValueBytes } from './limits.js';
export type { StoredError, StoredErrorOptions } from './stored-errors.js';

/**
 * The built-in native format. It returns values unchanged, so that the caller may use a value without reading it
 * back.
 */
export const nativeCodecName = nativeName;

export interface Codecs {
  /** The codec for values that only this app reads: the app's own serializer if it has one, else `js_superjson`. */
  readonly native: Codec;
  readonly portable: Codec;
  /** Returns the codec that wrote a row. Throws UNKNOWN_SERIALIZER if this app does not have it. */
  for(serialization: string | null): Codec;
  /** Decides which parts of an error are stored and logged. */
  readonly errors: StoredErrors;
}

/** Formats that Holdfast cannot read, by name. */
const foreignFormats: Readonly<Record<string, string>> = {
  py_pickle: 'DBOS for Python',
  DBOS_JSON: 'DBOS for Go',
  DBOS_GOB: 'DBOS for Go',
  java_jackson: 'DBOS for Java',
};

export interface CodecOptions {
  readonly serializer?: Serializer | undefined;
  readonly errors?: StoredErrorOptions | undefined;
  /** The maximum size of one stored value in bytes. */
  readonly maxValueBytes?: number | undefined;
}

/** Checks the options of `launch` or `connect` and creates the codecs. */
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
  const writer = foreignFormats[name];
  const advice =
    writer === undefined
      ? 'Launch with the serializer of that name: launch({ serializer }).'
      : `It is the native format of ${writer}. Configure the writer to use the portable format.`;
  throw new HoldfastError(
    'UNKNOWN_SERIALIZER',
    `A stored value has the format "${name}", but this app reads only ${known.join(', ')}. ${advice}`,
    { details: { serialization: name, known } },
  );
}
