/**
 * The user's own serializer as a codec. It gets values as they are, arguments as an array, errors as plain records
 * (error-record.ts), and answers at once or with a promise. What it may store is its own affair; that the result is a
 * text which both databases can hold is ours.
 */
import { HoldfastError, isError, isHoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { invalidOption } from '../model/options.js';
import { errorRecord, thrownFrom } from './error-record.js';
import type { Codec, Serializer } from './format.js';
import { textProblem, unserializable } from './refusal.js';
import { unreadable } from './revive.js';
import { salvage } from './salvage.js';

export function customCodec(serializer: Serializer, taken: readonly string[]): Codec {
  checkSerializer(serializer, taken);
  const { name } = serializer;

  function write(value: unknown, what: string): string | Promise<string> {
    return settle(
      () => serializer.stringify(value),
      (text) => checkText(text, name, what),
      (cause) => {
        throw cannotStringify(name, what, cause);
      },
    );
  }

  function read<R>(text: string, next: (value: unknown) => R): R | Promise<R> {
    return settle(
      () => serializer.parse(text),
      next,
      (cause) => {
        throw unreadable(`"${name}"`, text, cause);
      },
    );
  }

  function writeError(error: unknown): string | Promise<string> {
    return settle(
      () => write(isError(error) ? errorRecord(error) : error, 'The error'),
      (text) => text as string,
      // What the serializer accepts cannot be asked piece by piece (it may be slow): keep plain data only.
      () =>
        settle(
          () =>
            write(
              salvage(error, () => false),
              'The error',
            ),
          (text) => text as string,
          unwritten,
        ),
    );
  }

  return {
    name,
    encode: write,
    decode: (text) => read(text, (value) => value),
    encodeArguments: write,
    decodeArguments: (text) =>
      read(text, (args) => {
        if (!Array.isArray(args)) throw new Error('the arguments are not an array');
        return args as readonly unknown[];
      }),
    encodeError: writeError,
    decodeError: (text) => readUnwritten(text) ?? read(text, thrownFrom),
  };
}

const unwrittenPrefix = 'holdfast:unwritten:';

/**
 * In the place of an error that the serializer will not write at all (one that encrypts, say, by a service that is out of
 * reach): a workflow that failed must not stay PENDING for that. Of the error itself nothing, which may be a secret.
 */
function unwritten(cause: unknown): string {
  return `${unwrittenPrefix}${JSON.stringify(isError(cause) ? cause.message : String(cause))}`;
}

function readUnwritten(text: string): HoldfastError | undefined {
  if (!text.startsWith(unwrittenPrefix)) return undefined;
  return new HoldfastError(
    'UNSERIALIZABLE',
    `It failed, and why is not on record. ${JSON.parse(text.slice(unwrittenPrefix.length))}`,
  );
}

/** `next` gets the result of `run`, and `failed` what either threw: at once, or later if `run` returned a promise. */
function settle<R>(
  run: () => unknown,
  next: (value: unknown) => R,
  failed: (cause: unknown) => R | Promise<R>,
): R | Promise<R> {
  try {
    const result = run();
    return isPromise(result) ? Promise.resolve(result).then(next).catch(failed) : next(result);
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

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
