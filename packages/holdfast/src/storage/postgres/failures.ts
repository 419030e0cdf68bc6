import { isError, isErrorNamed } from '../../model/errors.js';
import type { Failure } from '../contract/failure-kind.js';

/** SQLSTATE classes whose statements fail again with the same data: bad data, violated constraint, too large. */
const refusedClasses = new Set(['22', '23', '54']);

/** SQLSTATEs of a session that has ended. It is unknown whether its commit succeeded. */
const lostStates = new Set(['57P01', '57P02', '57P03', '57P05', '40003']);

/** A lock was not released in time (`lock_timeout`). */
const lockNotAvailable = '55P03';

/** The statement was canceled: it took longer than `statement_timeout`, or an operator canceled it. */
const queryCanceled = '57014';

/**
 * A row refers to another row that no longer exists. Statements check that the other row exists. Therefore the other
 * row was deleted after the check, together with its workflow. A retry detects the deletion.
 */
const foreignKeyViolation = '23503';

/**
 * The statement names an object that the role may not use (42501), or that does not exist: a table (42P01), column
 * (42703), function (42883) or schema (3F000). Or the object has another kind or type than the statement expects.
 */
const unusableClasses = new Set(['42', '3F']);

export function classifyPostgres(error: unknown): Failure {
  // The driver could not encode the statement: a string exceeds the maximum length, or a value has an unknown type.
  if (isErrorNamed(error, 'RangeError', 'TypeError')) return 'refused';
  const state = sqlState(error);
  // Without a SQLSTATE the server did not answer: a socket error, a timeout, or a connection closed during the query.
  if (state === undefined || state.startsWith('08') || lostStates.has(state)) return 'lost';
  if (state === lockNotAvailable) return 'locked';
  if (state === queryCanceled) return 'slow';
  if (state === foreignKeyViolation) return 'retry';
  if (isUnprepared(error)) return 'retry';
  const kind = state.slice(0, 2);
  if (unusableClasses.has(kind)) return 'unusable';
  return refusedClasses.has(kind) ? 'refused' : 'retry';
}

const unpreparedStates = new Set(['26000', '42P05']);

/**
 * Returns true if the session has no prepared statement of that name, or has the statement of another client under it.
 * Nothing was executed.
 */
export function isUnprepared(error: unknown): boolean {
  return unpreparedStates.has(sqlState(error) ?? '');
}

/** The role lacks the right to run the statement. */
export const insufficientPrivilege = '42501';

export const readOnlyTransaction = '25006';

/**
 * Returns true if the server is read-only, like an old primary after a failover. A new connection may reach the new
 * primary.
 */
export function isReadOnlyServer(error: unknown): boolean {
  return sqlState(error) === readOnlyTransaction;
}

export function sqlState(error: unknown): string | undefined {
  const code = isError(error) && 'code' in error ? error.code : undefined;
  // Every SQLSTATE has a digit; the errno EPIPE has none.
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Returns the SQLSTATE of an error, or of the error that a library has wrapped as its cause. */
export function wrappedSqlState(error: unknown): string | undefined {
  return sqlState(error) ?? (isError(error) && error.cause !== undefined ? wrappedSqlState(error.cause) : undefined);
}
