/**
 * The user's own serializer as a codec. The serializer gets values unchanged, arguments as an array, and errors as
 * plain records (error-record.ts). It returns a text or a promise of a text. The serializer decides which values it
 * accepts. Holdfast ensures that both databases can store the text and that the serializer can read it: every text is
 * read once before it is stored.
 */
import { HoldfastError, isError, isHoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { invalidOption } from '../model/options.js';
import { toThrown } from './error-record.js';
import type { Codec, CodecSettings, Encoded, Serializer } from './format.js';
import { fits, tooLarge } from './limits.js';
import { notReadBack, textProblem, unserializable } from './refusal.js';
import { unreadable } from './revive.js';
import { cut, cutLengths, salvage, textOnlyRecord } from './salvage.js';

export function customCodec(serializer: Serializer, taken: readonly string[], settings: CodecSettings): Codec {
  checkSerializer(serializer, taken);
  return new CustomCodec(serializer, settings);
}

class CustomCodec implements Codec {
  readonly name: string;

  constructor(
    private readonly serializer: Serializer,
    private readonly settings: CodecSettings,
  ) {
    this.name = serializer.name;
  }

  encode(value: unknown, what: string): string | Promise<string> {
    return settle(
      () => this.encodeAndRead(value, what),
      ({ text }) => text,
      rethrow,
    );
  }

  /** Checks only that the serializer can read the text. It does not compare the value that was read. */
  encodeAndRead(value: unknown, what: string): Encoded | Promise<Encoded> {
    return settle(
      () => this.write(value, what),
      (text) => this.readBack(text, what),
      rethrow,
    );
  }

  encodeArguments(args: readonly unknown[], what: string): string | Promise<string> {
    return settle(
      () => this.encodeAndRead(args, what),
      ({ text, value }) => {
        if (!Array.isArray(value)) throw cannotReadBack(this.name, what, new Error(notAnArray));
        return text;
      },
      rethrow,
    );
  }

  encodeError(error: unknown): Encoded | Promise<Encoded> {
    return this.tryError(this.settings.errors.record(error), 0, undefined);
  }

  decode(text: string): unknown {
    return this.read(text, (value) => value);
  }

  decodeArguments(text: string): readonly unknown[] | Promise<readonly unknown[]> {
    return this.read(text, (args) => {
      if (!Array.isArray(args)) throw new Error(notAnArray);
      return args as readonly unknown[];
    });
  }

  decodeError(text: string): unknown {
    return readUnwritten(text) ?? this.read(text, toThrown);
  }

  private write(value: unknown, what: string): string | Promise<string> {
    const { serializer, name } = this;
    return settle(
      () => serializer.stringify(value),
      (text) => checkText(text, name, what),
      (cause) => {
        throw cannotStringify(name, what, cause);
      },
    );
  }

  private readBack(text: string, what: string): Encoded | Promise<Encoded> {
    return settle(
      () => this.serializer.parse(text),
      (value): Encoded => ({ text, value }),
      (cause) => {
        throw cannotReadBack(this.name, what, cause);
      },
    );
  }

  private read<R>(text: string, next: (value: unknown) => R): R | Promise<R> {
    return settle(
      () => this.serializer.parse(text),
      next,
      (cause) => {
        throw unreadable(`"${this.name}"`, text, cause);
      },
    );
  }

  private tryError(stored: unknown, reduction: number, failure: unknown): Encoded | Promise<Encoded> {
    const make = reductions[reduction];
    if (make === undefined) return unwritten(this.name, failure);
    const maxBytes = reduction === reductions.length - 1 ? Number.POSITIVE_INFINITY : this.settings.maxBytes;
    return settle(
      () => this.encodeAndRead(make(stored, maxBytes), 'The error'),
      ({ text, value }) => {
        if (!fits(text, maxBytes)) throw tooLarge('The error', text, maxBytes);
        return { text, value: toThrown(value) };
      },
      (cause) => this.tryError(stored, reduction + 1, cause),
    );
  }
}

/** Ways to reduce a thrown error, tried in this order: from the whole record down to its texts. */
const reductions: readonly ((stored: unknown, maxBytes: number) => unknown)[] = [
  (stored) => stored,
  // The serializer may be slow, so it is not asked which properties it accepts. Only plain data is kept.
  (stored) => salvage(stored, () => false),
  ...cutLengths.map(
    (length) => (stored: unknown) =>
      cut(
        salvage(stored, () => false),
        length,
      ),
  ),
  textOnlyRecord,
];

const notAnArray = 'the arguments are not an array';
const unwrittenPrefix = 'holdfast:unwritten:';

/**
 * Replaces an error that the serializer cannot write at all (for example because its encryption service is down) or
 * cannot read back. Without a stored error the failed workflow would stay PENDING. The text repeats nothing of the
 * error, which may be secret, and nothing of an error of `parse`, which may quote the text.
 */
function unwritten(serializer: string, failure: unknown): Encoded {
  const isUnread = isHoldfastError(failure, 'UNSERIALIZABLE') && failure.details.unread === true;
  const why = isUnread
    ? `The serializer "${serializer}" wrote a string for the error, and cannot read this string back.`
    : isError(failure)
      ? failure.message
      : String(failure);
  const text = `${unwrittenPrefix}${JSON.stringify(why)}`;
  return { text, value: readUnwritten(text) };
}

function readUnwritten(text: string): HoldfastError | undefined {
  if (!text.startsWith(unwrittenPrefix)) return undefined;
  return new HoldfastError(
    'UNSERIALIZABLE',
    `The workflow or step failed, but its error could not be stored. ${JSON.parse(text.slice(unwrittenPrefix.length))}`,
  );
}

function cannotReadBack(name: string, what: string, cause: unknown): HoldfastError {
  const advice = `Change parse of the serializer "${name}" so that it reads every string that stringify returns.`;
  const { message } = notReadBack(what, cause, advice);
  return new HoldfastError('UNSERIALIZABLE', message, { details: { what, serializer: name, unread: true }, cause });
}

function rethrow(cause: unknown): never {
  throw cause;
}

/**
 * Calls `next` with the result of `run`, and `failed` with an error of either. Stays synchronous unless one of them
 * returns a promise.
 */
function settle<T, R>(
  run: () => T | PromiseLike<T>,
  next: (value: T) => R | Promise<R>,
  failed: (cause: unknown) => R | Promise<R>,
): R | Promise<R> {
  try {
    const result = run();
    if (isPromise(result)) return Promise.resolve(result).then(next).catch(failed);
    const settled = next(result);
    return isPromise(settled) ? Promise.resolve(settled).catch(failed) : settled;
  } catch (cause) {
    return failed(cause);
  }
}

function checkSerializer(serializer: Serializer, taken: readonly string[]): void {
  const what = 'The serializer';
  if (typeof serializer !== 'object' || serializer === null) {
    throw invalidOption('launch', 'serializer', serializer, 'an object { name, stringify, parse }');
  }
  const name = checkName("The serializer's name", serializer.name);
  if (taken.includes(name)) {
    throw new HoldfastError(
      'INVALID_NAME',
      `The serializer has the name "${name}", which is the name of a built-in format. Choose another name.`,
      {
        details: { name, taken },
      },
    );
  }
  if (typeof serializer.stringify !== 'function') {
    throw invalidOption(what, 'stringify', serializer.stringify, 'a function from a value to a string');
  }
  if (typeof serializer.parse !== 'function') {
    throw invalidOption(what, 'parse', serializer.parse, 'a function from a string to a value');
  }
}

function checkText(text: unknown, name: string, what: string): string {
  const kind = text === null ? 'null' : typeof text;
  const problem = typeof text === 'string' ? textProblem(text) : `a value of the type ${kind} instead of a string`;
  if (problem === undefined) return text as string;
  throw new HoldfastError(
    'UNSERIALIZABLE',
    `${what} cannot be stored: the serializer "${name}" returned ${problem}. Return a string from stringify that a ` +
      'database can store, such as JSON or base64.',
    { details: { what, serializer: name } },
  );
}

function cannotStringify(name: string, what: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause)) return unserializable(what, cause);
  const reason = isError(cause) ? cause.message : String(cause);
  return new HoldfastError(
    'UNSERIALIZABLE',
    `${what} cannot be stored: the serializer "${name}" threw ${JSON.stringify(reason)}. Pass a value that it accepts.`,
    { details: { what, serializer: name }, cause },
  );
}

function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
