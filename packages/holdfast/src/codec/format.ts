/** The contract of a format. native-format.ts, portable-format.ts and custom-format.ts implement it. */

import type { StoredErrors } from './stored-errors.js';

/** A text for the database, and the value that a replay will read from the text. */
export interface Encoded {
  readonly text: string;
  readonly value: unknown;
}

/**
 * Converts values to the text of one `serialization` format and back.
 *
 * **Invariant:** a codec returns no text that it cannot read. If reading runs user code (`from` of a registered
 * class, `parse` of a serializer), the codec reads the text before it returns the text. It does not read texts of
 * plain values.
 */
export interface Codec {
  /** The value of the `serialization` column. */
  readonly name: string;
  /**
   * Throws UNSERIALIZABLE with `what` (`Output of step "charge"`) and the place in the value. Throws VALUE_TOO_LARGE
   * if the text has more than `maxBytes` (default: the limit of the app).
   */
  encode(value: unknown, what: string, maxBytes?: number): string | Promise<string>;
  /**
   * Like `encode`, for a caller that continues with the value: it must continue with the value read from the text.
   */
  encodeAndRead(value: unknown, what: string, maxBytes?: number): Encoded | Promise<Encoded>;
  /** Returns the value, or a promise of it if the serializer is async. Throws UNREADABLE_VALUE. */
  decode(text: string): unknown;
  encodeArguments(args: readonly unknown[], what: string, maxBytes?: number): string | Promise<string>;
  decodeArguments(text: string): readonly unknown[] | Promise<readonly unknown[]>;
  /**
   * Encodes anything that can be thrown. `value` of the result is the error to throw. Omits the parts of an error
   * that must not be stored (stored-errors.ts), cannot be stored or read, or are too large. Never throws and never
   * rejects, because every replay would repeat a failure that is not stored.
   */
  encodeError(error: unknown): Encoded | Promise<Encoded>;
  /** Returns the error to throw, or a promise of it. */
  decodeError(text: string): unknown;
}

/**
 * The user's own format. Both functions may be async. Each text is parsed once before it is stored, and is refused if
 * `parse` throws.
 */
export interface Serializer {
  /**
   * Stored in every row. A row is read by the serializer of this name, so change the name when the format changes.
   */
  readonly name: string;
  stringify(value: unknown): string | Promise<string>;
  parse(text: string): unknown;
}

/** The settings that all formats of an app share. */
export interface CodecSettings {
  readonly errors: StoredErrors;
  /** The maximum size of the text of an error in bytes. */
  readonly maxBytes: number;
}

/** Returns true if the value is not an object or a function, so that no copy of it can differ. */
export function isPrimitive(value: unknown): boolean {
  return value === null || (typeof value !== 'object' && typeof value !== 'function');
}
