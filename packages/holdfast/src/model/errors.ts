/**
 * Every error that Holdfast itself throws: one class, told apart by `code`.
 *
 * Errors cross processes and, in an application with two copies of the package, module boundaries. They are therefore
 * recognised by code ({@link isHoldfastError}), never by `instanceof`. `docs/errors.md` has a section per code; a test
 * holds the two together.
 */
import type { ErrorDetails } from './error-details.js';

export const errorCodes = {
  APP_CLOSED: 'The app was shut down while the call was waiting, or before it was made.',
  AMBIGUOUS_APP: 'Several running apps registered the workflow and the call does not say which one to use.',
  CLOCK_HELD: 'The virtual clock of a test waits for a step that is still running.',
  COMPAT_CONFLICT: 'The layout that was asked for is not the one that was chosen for the database.',
  DATABASE_FAILED: 'The database failed under a call, which can be made again.',
  DATABASE_MISSING: 'The Postgres database does not exist and could not be created.',
  DATABASE_UNREACHABLE: 'The database server or file could not be opened.',
  DATABASE_URL_INVALID: 'The database URL is not one that Holdfast understands.',
  DRIVER_MISSING: 'The database driver package is not installed.',
  DUPLICATE_WORKFLOW: 'Two different workflows were registered under one name.',
  ERROR_WITHHELD: 'The function `redact` failed, so that nothing of an error could be stored.',
  FATAL: 'A step threw FatalError: it is not retried.',
  INBOX_FULL: 'A workflow has so many messages that it has not received, that it takes no more.',
  INVALID_CRON: 'A cron expression cannot be read, or names no date that exists.',
  INVALID_DURATION: 'A duration is not a number of milliseconds or a text such as "30s".',
  INVALID_INPUT: "The arguments do not match the workflow's input schema.",
  INVALID_NAME: 'A name or ID is empty, too long, reserved or holds characters that cannot be stored.',
  INVALID_OPTION: 'An option is unknown or has a value that it cannot take.',
  INVALID_OUTPUT: "The returned value does not match the workflow's output schema.",
  INVALID_TIMEZONE: 'A time zone is not an IANA name such as "Europe/Berlin".',
  MIGRATION_REQUIRED: 'The schema is behind this version of Holdfast and migrating was switched off.',
  NON_DETERMINISM: 'The workflow did not repeat the steps that it has on record.',
  NOT_AUTHORIZED: 'The workflow requires a role that the user it was started for does not have.',
  NOT_IN_WORKFLOW: 'A function that needs a workflow around it was called outside one.',
  NOT_LAUNCHED: 'The workflow belongs to no running app.',
  QUEUE_CONFLICT: 'The queue belongs to another application.',
  QUEUE_DUPLICATE: 'An unfinished workflow on the queue has the same deduplication ID.',
  QUEUE_NOT_EMPTY: 'The queue cannot be deleted while unfinished workflows are on it.',
  RESULT_TIMEOUT: 'The workflow did not finish within the time that result() was given.',
  RIGHTS_MISSING: 'The role of the process lacks rights on the tables of Holdfast.',
  SCHEDULE_CONFLICT: 'The schedule belongs to another application.',
  SCHEDULE_EXISTS: 'There is a schedule with this name already.',
  SCHEDULE_NOT_FOUND: 'There is no schedule with this name.',
  SCHEMA_MISMATCH: 'A table, column or function of the database is missing, or is not the one that Holdfast needs.',
  SCHEMA_TOO_NEW: 'The database was migrated by a newer version of Holdfast.',
  SQLITE_COPIES: 'Two copies of SQLite would have the same file open in one process.',
  STEP_ATTEMPTS_EXHAUSTED: 'The processes that tried a step ended during its attempts, until none was left.',
  STEP_NAME_CLASH: 'Two different steps share one name.',
  STEP_TIMEOUT: 'One attempt of a step took longer than its timeout.',
  STORAGE_REFUSED: 'The database refused a value for a reason of its own.',
  STREAM_CLOSED: 'The workflow has closed the stream, so that nothing more can be written to it.',
  UNKNOWN_SERIALIZER: 'A stored value names a serializer that this app does not have.',
  UNKNOWN_QUEUE: 'There is no queue with this name.',
  UNREADABLE_VALUE: 'A stored value could not be read back.',
  UNSERIALIZABLE: 'A value cannot be stored.',
  UNSUPPORTED_CALL: 'The call is not possible where it was made.',
  VALUE_TOO_LARGE: 'A value has more bytes than one may have in the database.',
  WORKFLOW_CANCELLED: 'The workflow was cancelled, or its timeout passed.',
  WORKFLOW_CONFLICT: 'The workflow ID belongs to another workflow.',
  WORKFLOW_DEAD: 'The workflow was given up after too many recovery attempts.',
  WORKFLOW_ENDED: 'The workflow has ended, and messages to such workflows are refused.',
  WORKFLOW_NEEDED: 'The workflow cannot be deleted, because another one needs it.',
  WORKFLOW_NOT_FOUND: 'There is no workflow with this ID.',
  WORKFLOW_NOT_REGISTERED: 'No registered workflow has this name.',
  WORKFLOW_NOT_RESUMABLE:
    'The workflow has failed, and its error is its outcome: resume does not change that, retry does.',
  WORKFLOW_NOT_RETRYABLE:
    'The workflow has not failed, or retrying it would repeat what it has done since its failure.',
  WORKFLOW_STALLED: 'The workflow was set aside: a step cannot be read, or it is not to be resumed by itself.',
  WORKFLOW_UNFINISHED: 'The workflow cannot be deleted before it has ended.',
} as const satisfies Record<keyof ErrorDetails, string>;

export type ErrorCode = keyof typeof errorCodes;

export interface ErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** Code, message and options. The options are needed, and have details, where the code has details that it never lacks. */
type ErrorArguments = { [Code in ErrorCode]: [code: Code, message: string, ...options: OptionsOf<Code>] }[ErrorCode];

type OptionsOf<Code extends ErrorCode> =
  Record<never, unknown> extends ErrorDetails[Code]
    ? [options?: { readonly details?: OptionalDetails<ErrorDetails[Code]>; readonly cause?: unknown }]
    : [options: { readonly details: ErrorDetails[Code]; readonly cause?: unknown }];

/** Without it, a code that has no details would take any. */
type OptionalDetails<Details> = keyof Details extends never ? Readonly<Record<string, never>> : Details;

export class HoldfastError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(...[code, message, options = {}]: ErrorArguments) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.name = 'HoldfastError';
    this.code = code;
    this.details = options.details ?? {};
  }
}

/** An error of ours with this code, and the details of that code. */
export type HoldfastErrorOf<Code extends ErrorCode> = { [Each in Code]: Coded<Each> }[Code];

interface Coded<Code extends ErrorCode> extends Error {
  readonly code: Code;
  readonly details: ErrorDetails[Code];
}

/** Thrown by a step to say that trying again is pointless: the step fails at once, whatever its retries. */
export class FatalError extends HoldfastError {
  constructor(message: string, options: ErrorOptions = {}) {
    super('FATAL', message, options);
    this.name = 'FatalError';
  }
}

export function closedError(): HoldfastError {
  return new HoldfastError(
    'APP_CLOSED',
    'The app was shut down. What was unfinished goes on in the next process that launches it.',
  );
}

/**
 * Whether the value is an Error, also one of another realm: jest runs code in a realm of its own, in which the errors of
 * Node's own modules are no instances of Error.
 */
export function isError(value: unknown): value is Error {
  return holds(() => value instanceof Error || errorTags.has(Object.prototype.toString.call(value)));
}

/** Anything can be thrown, also a proxy, or an object whose getters throw. What cannot be looked into is nothing that we look for. */
function holds(look: () => boolean): boolean {
  try {
    return look();
  } catch {
    return false;
  }
}

const errorTags: ReadonlySet<string> = new Set(['[object Error]', '[object DOMException]']);

/** Whether it is an error of a built-in class, of whatever realm. */
export function isErrorNamed(value: unknown, ...names: readonly string[]): value is Error {
  return isError(value) && holds(() => names.includes(value.name));
}

/**
 * Whether `error` is one of ours (and, if given, has this code), also when another copy of the package made it. Its
 * `details` are those of its code, for the compiler too: with `code`, or in a `switch (error.code)`.
 */
export function isHoldfastError<Code extends ErrorCode = ErrorCode>(
  error: unknown,
  code?: Code,
): error is HoldfastErrorOf<Code> {
  return holds(() => {
    // Others have codes such as INVALID_INPUT too, and no details that a caller could look into.
    if (!isError(error) || !('code' in error && 'details' in error)) return false;
    if (typeof error.code !== 'string' || typeof error.details !== 'object' || error.details === null) return false;
    return code === undefined ? error.code in errorCodes : error.code === code;
  });
}

/** Whether it says that trying again is pointless. By its code alone: a FatalError that was stored may have lost the rest. */
export function isFatal(error: unknown): boolean {
  return holds(() => isError(error) && 'code' in error && error.code === ('FATAL' satisfies ErrorCode));
}

/** The error as a text for a log line or another error's message. Never throws, whatever was thrown. */
export function describeError(error: unknown): string {
  try {
    return isError(error) ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return `a value of the type ${typeof error}, of which no text can be made`;
  }
}
