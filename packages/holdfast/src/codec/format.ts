/** What a format is: the contract that native.ts, portable.ts and custom.ts fulfil. */

import type { StoredErrors } from './stored-errors.js';

/** A text for the database, and what it reads as: what a replay will get. */
export interface Encoded {
  readonly text: string;
  readonly value: unknown;
}

/**
 * How values become the text of one `serialization` format, and back.
 *
 * **Invariant:** a codec hands out no text that it cannot read. Where user code takes part in the reading (`from` of a
 * registered class, a serializer's `parse`), the text is read before it is handed out; texts of plain values are not.
 */
export interface Codec {
  /** What the `serialization` column says. */
  readonly name: string;
  /**
   * Throws UNSERIALIZABLE, naming `what` (`Output of step "charge"`) and the place in the value; or VALUE_TOO_LARGE, if its text
   * has more than `maxBytes` (default: the limit of the app).
   */
  encode(value: unknown, what: string, maxBytes?: number): string | Promise<string>;
  /** The same, for a caller that goes on with the value: it must go on with what the text reads as. */
  encodeAndRead(value: unknown, what: string, maxBytes?: number): Encoded | Promise<Encoded>;
  /** The value, or a promise of it from a custom serializer. Throws UNREADABLE_VALUE. */
  decode(text: string): unknown;
  encodeArguments(args: readonly unknown[], what: string, maxBytes?: number): string | Promise<string>;
  decodeArguments(text: string): readonly unknown[] | Promise<readonly unknown[]>;
  /**
   * Anything that can be thrown, with what to throw as its value. What is not to be stored of the error (stored-errors.ts), cannot be
   * stored or read, or is too large, is left out: it never throws and never rejects, because a failure that is not on record would be repeated by every replay.
   */
  encodeError(error: unknown): Encoded | Promise<Encoded>;
  /** What to throw, or a promise of it. */
  decodeError(text: string): unknown;
}

/** The user's own format. Both functions may be async. Each text is parsed once before it is stored, and refused if it cannot be. */
export interface Serializer {
  /** Goes into every row; rows are read by the serializer of that name, so change it when the format changes. */
  readonly name: string;
  stringify(value: unknown): string | Promise<string>;
  parse(text: string): unknown;
}

/** What all formats of an app have in common. */
export interface CodecSettings {
  readonly errors: StoredErrors;
  /** Most bytes of an error's text. */
  readonly maxBytes: number;
}

/** Whether every copy of the value is the value itself. */
export function isPrimitive(value: unknown): boolean {
  return value === null || (typeof value !== 'object' && typeof value !== 'function');
}
