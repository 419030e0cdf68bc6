/** What a format is: the contract that native.ts, portable.ts and custom.ts fulfil. */

/** How values become the text of one `serialization` format, and back. */
export interface Codec {
  /** What the `serialization` column says. */
  readonly name: string;
  /** Throws UNSERIALIZABLE, naming `what` (`Output of step "charge"`) and the place in the value. */
  encode(value: unknown, what: string): string | Promise<string>;
  /** The value, or a promise of it from a custom serializer. Throws UNREADABLE_VALUE. */
  decode(text: string): unknown;
  encodeArguments(args: readonly unknown[], what: string): string | Promise<string>;
  decodeArguments(text: string): readonly unknown[] | Promise<readonly unknown[]>;
  /** Anything that can be thrown. What cannot be stored of it is left out; it does not throw for that. */
  encodeError(error: unknown): string | Promise<string>;
  /** What to throw, or a promise of it. */
  decodeError(text: string): unknown;
}

/** The user's own format. Both functions may be async. */
export interface Serializer {
  /** Goes into every row; rows are read by the serializer of that name, so change it when the format changes. */
  readonly name: string;
  stringify(value: unknown): string | Promise<string>;
  parse(text: string): unknown;
}

/** Whether every copy of the value is the value itself. */
export function isPrimitive(value: unknown): boolean {
  return value === null || (typeof value !== 'object' && typeof value !== 'function');
}
