/**
 * The limit of what one value may take in the database, in bytes of its text. A value is refused above it; an error is cut
 * (salvage.ts), because an outcome always goes on record. Nothing is limited that is only read: other writers of the same tables
 * know no limits.
 */
import { HoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import type { Codec, Encoded } from './format.js';

export const defaultMaxValueBytes = 2 * 1024 * 1024;

/** Smaller ones would leave no room for errors. */
const minBytes = 1_000;

/** The option, or undefined if it was not given. */
export function checkMaxValueBytes(what: string, value: number | undefined): number | undefined {
  if (value === undefined || value === Number.POSITIVE_INFINITY) return value;
  if (Number.isInteger(value) && value >= minBytes) return value;
  const expected = `a whole number of bytes of at least ${minBytes}, or Infinity for no limit`;
  throw invalidOption(what, 'maxValueBytes', value, expected);
}

/** Whether a text has at most so many bytes. Most texts are far from it, and are not counted. */
export function fits(text: string, maxBytes: number): boolean {
  if (text.length > maxBytes) return false;
  return text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes;
}

export function tooLarge(what: string, text: string, maxBytes: number): HoldfastError {
  const bytes = Buffer.byteLength(text);
  return new HoldfastError(
    'VALUE_TOO_LARGE',
    `${what} has ${bytes} bytes as it would be stored, more than the limit of ${maxBytes}. Store it elsewhere, such as in a ` +
      'file or an object store, and pass its key; or raise the limit, "maxValueBytes", where the workflow, step, topic, event or ' +
      'stream is defined, or for all of them in launch() or connect().',
    { details: { what, bytes, maxBytes } },
  );
}

/** The same codec, with a limit: that of the app, unless a call has its own. */
export function limited(codec: Codec, ofApp: number): Codec {
  const text = (what: string, maxBytes: number, made: string | Promise<string>): string | Promise<string> => {
    if (typeof made !== 'string') return made.then((later) => text(what, maxBytes, later));
    if (!fits(made, maxBytes)) throw tooLarge(what, made, maxBytes);
    return made;
  };
  const encoded = (what: string, maxBytes: number, made: Encoded | Promise<Encoded>): Encoded | Promise<Encoded> => {
    if (!('text' in made)) return made.then((later) => encoded(what, maxBytes, later));
    if (!fits(made.text, maxBytes)) throw tooLarge(what, made.text, maxBytes);
    return made;
  };
  return {
    name: codec.name,
    encode: (value, what, maxBytes = ofApp) => text(what, maxBytes, codec.encode(value, what)),
    encodeAndRead: (value, what, maxBytes = ofApp) => encoded(what, maxBytes, codec.encodeAndRead(value, what)),
    encodeArguments: (args, what, maxBytes = ofApp) => text(what, maxBytes, codec.encodeArguments(args, what)),
    encodeError: (error) => codec.encodeError(error),
    decode: (text) => codec.decode(text),
    decodeArguments: (text) => codec.decodeArguments(text),
    decodeError: (text) => codec.decodeError(text),
  };
}
