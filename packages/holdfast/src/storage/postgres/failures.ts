import { isError, isErrorNamed } from '../../model/errors.js';
import type { Failure } from '../database.js';

/** SQLSTATE classes whose statements would fail again with the same data: bad data, violated constraint, too large. */
const refusedClasses = new Set(['22', '23', '54']);

/** Single states that say the session is gone, so that nobody can tell whether a commit went through. */
const lostStates = new Set(['57P01', '57P02', '57P03', '57P05', '40003']);

/** A lock did not come free in time (`lock_timeout`). */
const lockNotAvailable = '55P03';

/** The statement was cancelled: it took longer than `statement_timeout`, or an operator did it. */
const queryCanceled = '57014';

/**
 * What a row refers to is gone. Statements look whether it is there, so that it went since, with a workflow that was
 * deleted: a repetition finds that out.
 */
const foreignKeyViolation = '23503';

/**
 * The server does not know, or does not let this role use, what a statement names: a missing right (42501), table (42P01),
 * column (42703), function (42883), schema (3F000), or one of another kind or type than the statement expects.
 */
const unusableClasses = new Set(['42', '3F']);

export function classifyPostgres(error: unknown): Failure {
  // The driver could not even write the statement: a text longer than a text can be, a value of no known kind.
  if (isErrorNamed(error, 'RangeError', 'TypeError')) return 'refused';
  const state = sqlState(error);
  // Without a SQLSTATE the server did not answer: a socket error, a timeout, a connection closed under the query.
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

/** The session has no statement of that name, or one that another client prepared there. Nothing was executed. */
export function isUnprepared(error: unknown): boolean {
  return unpreparedStates.has(sqlState(error) ?? '');
}

/** The role may not do this. */
export const insufficientPrivilege = '42501';

export const readOnlyTransaction = '25006';

/** The server is read-only: after a failover, the old primary. Another connection may lead to the new one. */
export function standsWrong(error: unknown): boolean {
  return sqlState(error) === readOnlyTransaction;
}

export function sqlState(error: unknown): string | undefined {
  const code = isError(error) && 'code' in error ? error.code : undefined;
  // Every SQLSTATE has a digit; the errno EPIPE has none.
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** The same of an error that a library has put around it. */
export function stateOf(error: unknown): string | undefined {
  return sqlState(error) ?? (isError(error) && error.cause !== undefined ? stateOf(error.cause) : undefined);
}
