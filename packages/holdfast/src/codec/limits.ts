/**
 * The size limit of one stored value, in bytes of its text. A larger value is refused. A larger error is cut
 * (salvage.ts), because an outcome must always be stored. Values that are only read have no limit, because other
 * writers of the same tables have none.
 */
import { HoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import type { Codec, Encoded } from './format.js';

export const defaultMaxValueBytes = 2 * 1024 * 1024;

/** The smallest limit that leaves room for an error record. */
const minBytes = 1_000;

/** Returns the option, or undefined if it was not given. Throws INVALID_OPTION. */
export function checkMaxValueBytes(what: string, value: number | undefined): number | undefined {
  if (value === undefined || value === Number.POSITIVE_INFINITY) return value;
  if (Number.isInteger(value) && value >= minBytes) return value;
  const expected = `a whole number of bytes of at least ${minBytes}, or Infinity for no limit`;
  throw invalidOption(what, 'maxValueBytes', value, expected);
}

/**
 * Returns true if the text has at most `maxBytes`. The bytes of a short text are not counted, because a character has
 * at most 3 bytes.
 */
export function fits(text: string, maxBytes: number): boolean {
  if (text.length > maxBytes) return false;
  return text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes;
}

export function tooLarge(what: string, text: string, maxBytes: number): HoldfastError {
  const bytes = Buffer.byteLength(text);
  return new HoldfastError(
    'VALUE_TOO_LARGE',
    `${what} would take ${bytes} bytes in the database, more than the limit of ${maxBytes}. Store it elsewhere, such ` +
      'as in a file or an object store, and pass its key. Or raise the limit "maxValueBytes" where the workflow, ' +
      'step, topic, event or stream is defined, or for all of them in launch() or connect().',
    { details: { what, bytes, maxBytes } },
  );
}

/** Returns the codec with a size limit: the limit of the app, unless a call passes its own. */
export function limited(codec: Codec, appLimit: number): Codec {
  const checkedText = (what: string, maxBytes: number, text: string | Promise<string>): string | Promise<string> => {
    if (typeof text !== 'string') return text.then((later) => checkedText(what, maxBytes, later));
    if (!fits(text, maxBytes)) throw tooLarge(what, text, maxBytes);
    return text;
  };
  const checked = (what: string, maxBytes: number, encoded: Encoded | Promise<Encoded>): Encoded | Promise<Encoded> => {
    if (!('text' in encoded)) return encoded.then((later) => checked(what, maxBytes, later));
    if (!fits(encoded.text, maxBytes)) throw tooLarge(what, encoded.text, maxBytes);
    return encoded;
  };
  return {
    name: codec.name,
    encode: (value, what, maxBytes = appLimit) => checkedText(what, maxBytes, codec.encode(value, what)),
    encodeAndRead: (value, what, maxBytes = appLimit) => checked(what, maxBytes, codec.encodeAndRead(value, what)),
    encodeArguments: (args, what, maxBytes = appLimit) =>
      checkedText(what, maxBytes, codec.encodeArguments(args, what)),
    encodeError: (error) => codec.encodeError(error),
    decode: (text) => codec.decode(text),
    decodeArguments: (text) => codec.decodeArguments(text),
    decodeError: (text) => codec.decodeError(text),
  };
}
