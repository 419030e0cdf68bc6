import { isError, isHoldfastError } from '../model/errors.js';
import { isDatabaseError } from '../storage/contract/failure.js';
import {
  classifyPostgres,
  isReadOnlyServer as isReadOnlyFailure,
  isSqlite,
  sqliteCode,
  sqlState,
} from '../storage/open-datasource.js';

/**
 * Returns an error of the application's database and its causes, because libraries wrap the error of the driver. A
 * HoldfastError such as FatalError is an error of the user's code, whatever its cause, and ends the list.
 */
function causes(error: unknown): Error[] {
  const found: Error[] = [];
  for (let each = error; isError(each) && !isHoldfastError(each) && found.length < 10; each = each.cause) {
    found.push(each);
  }
  return found;
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

const conflictStates = new Set(['40001', '40P01']);

/** Returns true for a conflict with another transaction. This transaction is certainly rolled back. */
export function isConflict(error: unknown): boolean {
  return causes(error).some(
    (each) => conflictStates.has(codeOf(each)) || isSqlite(each, 'SQLITE_BUSY', 'SQLITE_LOCKED'),
  );
}

const outageStates = new Set(['57P01', '57P02', '57P03', '53300']);

/** Returns true if the server, the library (by its own code) or our storage reports that there is no connection. */
export function isOutage(error: unknown): boolean {
  if (isDatabaseError(error)) return true;
  return causes(error).some((each) => {
    const state = sqlState(each);
    if (state !== undefined) return state.startsWith('08') || outageStates.has(state);
    return /^CONNECTION_(CLOSED|ENDED|DESTROYED)$|^CONNECT_TIMEOUT$/.test(codeOf(each));
  });
}

/** Returns true after a lock timeout, a statement timeout or a lack of server resources. A retry may succeed. */
export function isTemporaryRefusal(error: unknown): boolean {
  return causes(error).some((each) => /^(55P03|57014|53...|58...)$/.test(sqlState(each) ?? ''));
}

/**
 * Returns true if the server accepts no changes, such as the old primary after a failover. Another connection may
 * lead to the new primary. In a transaction that began as read-only the same error says nothing about the server.
 */
export function isReadOnlyServer(error: unknown): boolean {
  return causes(error).some(isReadOnlyFailure);
}

/** Returns true if Postgres refuses all further statements of the transaction, because a statement has failed. */
export function isAborted(error: unknown): boolean {
  return causes(error).some((each) => sqlState(each) === '25P02');
}

const unreachableCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

/** Like {@link isOutage}, for an attempt to connect. There a network error code can only come from the connection. */
export function isUnreachable(error: unknown): boolean {
  return isOutage(error) || causes(error).some((each) => unreachableCodes.has(codeOf(each)));
}

/** Returns true if the connection was lost before the server confirmed or refused the commit. */
export function isUnconfirmed(error: unknown): boolean {
  const all = causes(error);
  if (all.some((each) => sqliteCode(each) !== '')) return false;
  return all.length > 0 && all.every((each) => classifyPostgres(each) === 'lost');
}
