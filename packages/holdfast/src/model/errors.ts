/**
 * The errors that Holdfast throws. They have one class and differ by `code`.
 *
 * Errors cross processes and, in an application with two copies of the package, module boundaries. They are therefore
 * recognized by code ({@link isHoldfastError}), never by `instanceof`. `docs/errors.md` has a section per code; a test
 * compares the codes with these sections.
 */
import type { ErrorDetails } from './error-details.js';

export const errorCodes = {
  APP_CLOSED: 'The app was shut down before the call, or while the call was waiting.',
  AMBIGUOUS_APP: 'Several running apps have registered the workflow, and the call does not say which app to use.',
  CLOCK_HELD: 'A test cannot move the virtual clock while a step is still running.',
  COMPAT_CONFLICT: 'The requested table layout is not the layout that was chosen for the database.',
  DATABASE_FAILED: 'The database failed during a call. The call can be repeated.',
  DATABASE_MISSING: 'The Postgres database does not exist and could not be created.',
  DATABASE_UNREACHABLE: 'The database server or file could not be opened.',
  DATABASE_URL_INVALID: 'Holdfast does not understand the database URL.',
  DRIVER_MISSING: 'The database driver package is not installed, or does not work with this version of Node.',
  DUPLICATE_WORKFLOW: 'Two different workflows have the same name.',
  ERROR_WITHHELD: 'The function `redact` failed, so the original error was not stored.',
  FATAL: 'A step threw FatalError, so the step is not retried.',
  INBOX_FULL: 'Too many messages are waiting for the workflow, so its inbox accepts no more.',
  INVALID_CRON: 'A cron expression has an invalid field, or matches no date.',
  INVALID_DURATION: 'A duration is neither a number of milliseconds nor a string such as "30s".',
  INVALID_INPUT: "The first argument does not match the workflow's input schema.",
  INVALID_NAME: 'A name or ID is empty, too long, reserved or taken, or contains characters that cannot be stored.',
  INVALID_OPTION: 'An option is unknown or has an invalid value.',
  INVALID_OUTPUT: "The returned value does not match the workflow's output schema.",
  INVALID_TIMEZONE: 'A time zone is not an IANA name such as "Europe/Berlin".',
  MIGRATION_REQUIRED: 'The database schema is too old for this version of Holdfast and must be migrated first.',
  NON_DETERMINISM: 'A replay of the workflow did not repeat the steps in its history.',
  NOT_AUTHORIZED: 'The user for whom the workflow was started lacks the role that the workflow requires.',
  NOT_IN_WORKFLOW: 'A function that works only inside a workflow was called outside a workflow.',
  NOT_LAUNCHED: 'No running app has registered the workflow.',
  QUEUE_CONFLICT: 'The queue belongs to another application.',
  QUEUE_DUPLICATE: 'An unfinished workflow on the queue already has this deduplication ID.',
  QUEUE_NOT_EMPTY: 'The queue cannot be deleted while it has unfinished workflows.',
  RESULT_TIMEOUT: 'The workflow did not end within the timeout of result().',
  RIGHTS_MISSING: 'The database role of the process lacks rights on the tables of Holdfast.',
  SCHEDULE_CONFLICT: 'The schedule belongs to another application.',
  SCHEDULE_EXISTS: 'A schedule with this name already exists.',
  SCHEDULE_NOT_FOUND: 'No schedule has this name.',
  SCHEMA_MISMATCH: 'A table, column or function that Holdfast needs is missing or different.',
  SCHEMA_TOO_NEW: 'The database was migrated by a newer version of Holdfast.',
  SQLITE_COPIES: 'Two copies of the SQLite library would open the same file in one process.',
  STEP_ATTEMPTS_EXHAUSTED: 'The step has no result and no attempts left: processes ended while they ran it.',
  STEP_NAME_CLASH: 'Two different steps have the same name.',
  STEP_TIMEOUT: 'One attempt of a step took longer than its timeout.',
  STORAGE_REFUSED: 'The database refused to store a value.',
  STREAM_CLOSED: 'The workflow has closed the stream, so nothing more can be written to it.',
  UNKNOWN_SERIALIZER: 'A stored value has the format of a serializer that this app does not have.',
  UNKNOWN_QUEUE: 'No queue has this name.',
  UNREADABLE_VALUE: 'A stored value could not be read.',
  UNSERIALIZABLE: 'A value cannot be stored.',
  UNSUPPORTED_CALL: 'The call is not allowed in this place.',
  VALUE_TOO_LARGE: 'A value has more bytes than the limit allows.',
  WORKFLOW_CANCELLED: 'The workflow was cancelled, or its timeout passed.',
  WORKFLOW_CONFLICT: 'The workflow ID belongs to another workflow.',
  WORKFLOW_DEAD: 'The workflow was recovered too often and is not tried again.',
  WORKFLOW_ENDED: 'The workflow has ended, and the topic refuses messages to ended workflows.',
  WORKFLOW_NEEDED: 'The workflow cannot be deleted because another workflow needs it.',
  WORKFLOW_NOT_FOUND: 'No workflow has this ID.',
  WORKFLOW_NOT_REGISTERED: 'No registered workflow has this name.',
  WORKFLOW_NOT_RESUMABLE: 'The workflow has failed. Only retry() continues a failed workflow, resume() does not.',
  WORKFLOW_NOT_RETRYABLE: 'The workflow has not failed, or a retry might repeat work that it did after the failure.',
  WORKFLOW_STALLED: 'The workflow is stalled: a step cannot be read, or the workflow is not resumed automatically.',
  WORKFLOW_UNFINISHED: 'The workflow cannot be deleted until it has ended.',
} as const satisfies Record<keyof ErrorDetails, string>;

export type ErrorCode = keyof typeof errorCodes;

export interface ErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** Code, message and options. The options are required if the code has required details. */
type ErrorArguments = { [Code in ErrorCode]: [code: Code, message: string, ...options: OptionsOf<Code>] }[ErrorCode];

type OptionsOf<Code extends ErrorCode> =
  Record<never, unknown> extends ErrorDetails[Code]
    ? [options?: { readonly details?: OptionalDetails<ErrorDetails[Code]>; readonly cause?: unknown }]
    : [options: { readonly details: ErrorDetails[Code]; readonly cause?: unknown }];

/** Forbids details for codes without details. An empty object type alone would accept any details. */
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

/** A Holdfast error with this code and the details of this code. */
export type HoldfastErrorOf<Code extends ErrorCode> = { [Each in Code]: Coded<Each> }[Code];

interface Coded<Code extends ErrorCode> extends Error {
  readonly code: Code;
  readonly details: ErrorDetails[Code];
}

/** A step throws this error if a retry cannot help. The step then fails immediately, whatever its `retries`. */
export class FatalError extends HoldfastError {
  constructor(message: string, options: ErrorOptions = {}) {
    super('FATAL', message, options);
    this.name = 'FatalError';
  }
}

export function closedError(): HoldfastError {
  return new HoldfastError(
    'APP_CLOSED',
    'The app was shut down. Unfinished workflows continue in the next process that launches the app. ' +
      'To wait for a workflow in this process, await its result() before shutdown().',
  );
}

/**
 * Returns true if the value is an Error, even from another realm. For example, jest runs code in its own realm, where
 * errors from Node's modules are not instances of Error.
 */
export function isError(value: unknown): value is Error {
  return safely(() => value instanceof Error || errorTags.has(Object.prototype.toString.call(value)));
}

/**
 * Returns the result of `check`, or false if `check` throws. Any value can be thrown, even a proxy or an object whose
 * getters throw.
 */
function safely(check: () => boolean): boolean {
  try {
    return check();
  } catch {
    return false;
  }
}

const errorTags: ReadonlySet<string> = new Set(['[object Error]', '[object DOMException]']);

/** Returns true if the value is an error with one of these names, from any realm. */
export function isErrorNamed(value: unknown, ...names: readonly string[]): value is Error {
  return isError(value) && safely(() => names.includes(value.name));
}

/**
 * Returns true if `error` is a Holdfast error and, if `code` is given, has this code. The error may come from another
 * copy of the package. With `code`, or in a `switch (error.code)`, TypeScript knows the `details` of the code.
 */
export function isHoldfastError<Code extends ErrorCode = ErrorCode>(
  error: unknown,
  code?: Code,
): error is HoldfastErrorOf<Code> {
  return safely(() => {
    // Errors of other libraries may have codes such as INVALID_INPUT too, but not the details that a caller expects.
    if (!isError(error) || !('code' in error && 'details' in error)) return false;
    if (typeof error.code !== 'string' || typeof error.details !== 'object' || error.details === null) return false;
    return code === undefined ? error.code in errorCodes : error.code === code;
  });
}

/**
 * Returns true if the error says that a retry cannot help. Only the code is checked, because a FatalError that was
 * stored may have lost its other fields.
 */
export function isFatal(error: unknown): boolean {
  return safely(() => isError(error) && 'code' in error && error.code === ('FATAL' satisfies ErrorCode));
}

/**
 * Returns the error as a text for a log line or for the message of another error. Never throws, whatever `error` is.
 */
export function describeError(error: unknown): string {
  try {
    return isError(error) ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return `a value of the type ${typeof error} that cannot be converted to text`;
  }
}
