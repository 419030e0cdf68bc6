/**
 * The user's own serializer as a codec. It gets values as they are, arguments as an array, errors as plain records
 * (error-record.ts), and answers at once or with a promise. What it may store is its own affair; that the result is a
 * text which both databases can hold, and which it can read, is ours: every text is read once before it is stored.
 */
import { HoldfastError, isError, isHoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { invalidOption } from '../model/options.js';
import { thrownFrom } from './error-record.js';
import type { Codec, CodecSettings, Encoded, Serializer } from './format.js';
import { fits, tooLarge } from './limits.js';
import { notReadBack, textProblem, unserializable } from './refusal.js';
import { unreadable } from './revive.js';
import { bareRecord, cut, cutLengths, salvage } from './salvage.js';

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

  /** What the serializer gives back is its own affair; that it gives back something is what must be known. */
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
    return readUnwritten(text) ?? this.read(text, thrownFrom);
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

  private tryError(stored: unknown, way: number, failure: unknown): Encoded | Promise<Encoded> {
    const make = partsOf[way];
    if (make === undefined) return unwritten(this.name, failure);
    const maxBytes = way === partsOf.length - 1 ? Number.POSITIVE_INFINITY : this.settings.maxBytes;
    return settle(
      () => this.encodeAndRead(make(stored, maxBytes), 'The error'),
      ({ text, value }) => {
        if (!fits(text, maxBytes)) throw tooLarge('The error', text, maxBytes);
        return { text, value: thrownFrom(value) };
      },
      (cause) => this.tryError(stored, way + 1, cause),
    );
  }
}

/** What to write of what is to be stored of something thrown, from all of it to next to nothing. */
const partsOf: readonly ((stored: unknown, maxBytes: number) => unknown)[] = [
  (stored) => stored,
  // What the serializer accepts cannot be asked piece by piece (it may be slow): keep plain data only.
  (stored) => salvage(stored, () => false),
  ...cutLengths.map(
    (length) => (stored: unknown) =>
      cut(
        salvage(stored, () => false),
        length,
      ),
  ),
  bareRecord,
];

const notAnArray = 'the arguments are not an array';
const unwrittenPrefix = 'holdfast:unwritten:';

/**
 * In the place of an error that the serializer will not write at all (one that encrypts, say, by a service that is out of
 * reach), or not read again: a workflow that failed must not stay PENDING for that. Of the error itself nothing, which may
 * be a secret; nor of what `parse` threw, which may quote what it was to read.
 */
function unwritten(serializer: string, failure: unknown): Encoded {
  const isUnread = isHoldfastError(failure, 'UNSERIALIZABLE') && failure.details.unread === true;
  const why = isUnread
    ? `The serializer "${serializer}" cannot read what it wrote of it.`
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
    `It failed, and why is not on record. ${JSON.parse(text.slice(unwrittenPrefix.length))}`,
  );
}

function cannotReadBack(name: string, what: string, cause: unknown): HoldfastError {
  const advice = `Let parse of the serializer "${name}" read every text that its stringify returns.`;
  const { message } = notReadBack(what, cause, advice);
  return new HoldfastError('UNSERIALIZABLE', message, { details: { what, serializer: name, unread: true }, cause });
}

function rethrow(cause: unknown): never {
  throw cause;
}

/** `next` gets the result of `run`, and `failed` what either threw: at once, or later if one of them returned a promise. */
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
      `The serializer's name "${name}" is that of a built-in format. Choose another one.`,
      {
        details: { name, taken },
      },
    );
  }
  if (typeof serializer.stringify !== 'function') {
    throw invalidOption(what, 'stringify', serializer.stringify, 'a function from a value to a text');
  }
  if (typeof serializer.parse !== 'function') {
    throw invalidOption(what, 'parse', serializer.parse, 'a function from a text to a value');
  }
}

function checkText(text: unknown, name: string, what: string): string {
  const problem = typeof text === 'string' ? textProblem(text) : `no text but ${text === null ? 'null' : typeof text}`;
  if (problem === undefined) return text as string;
  throw new HoldfastError(
    'UNSERIALIZABLE',
    `${what} cannot be stored: the serializer "${name}" returned ${problem}. Let its stringify return a text that ` +
      'a database can hold, such as JSON or base64.',
    { details: { what, serializer: name } },
  );
}

function cannotStringify(name: string, what: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause)) return unserializable(what, cause);
  const reason = isError(cause) ? cause.message : String(cause);
  return new HoldfastError(
    'UNSERIALIZABLE',
    `${what} cannot be stored: the serializer "${name}" threw ${JSON.stringify(reason)}. Store something that it can write.`,
    { details: { what, serializer: name }, cause },
  );
}

function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
