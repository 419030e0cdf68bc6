import type { Failure } from '../database.js';

/** SQLSTATE classes whose statements would fail again with the same data: bad data, violated constraint, too large. */
const refusedClasses = new Set(['22', '23', '54']);

/** Single states that say the session is gone, so that nobody can tell whether a commit went through. */
const lostStates = new Set(['57P01', '57P02', '57P03', '57P05', '40003']);

export function classifyPostgres(error: unknown): Failure {
  // The driver could not even write the statement: a text longer than a text can be, a value of no known kind.
  if (error instanceof RangeError || error instanceof TypeError) return 'refused';
  const state = sqlState(error);
  // Without a SQLSTATE the server did not answer: a socket error, a timeout, a connection closed under the query.
  if (state === undefined || state.startsWith('08') || lostStates.has(state)) return 'lost';
  return refusedClasses.has(state.slice(0, 2)) ? 'refused' : 'retry';
}

export function sqlState(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  // Every SQLSTATE has a digit; the errno EPIPE has none.
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}
