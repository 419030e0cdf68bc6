import { isError, isHoldfastError } from '../model/errors.js';
import { isDatabaseError } from '../storage/contract/failure.js';
import { classifyPostgres, sqlState, standsWrong } from '../storage/postgres/failures.js';
import { isSqlite, sqliteCode } from '../storage/sqlite/codes.js';

/**
 * What an error of the application's database means. Libraries wrap the driver's error, so its causes count as well; what
 * the user throws as an error of ours, such as FatalError, is the user's whatever its cause.
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

/** Two transactions were in each other's way, and this one is certainly rolled back: it is as if it had not been. */
export function isConflict(error: unknown): boolean {
  return causes(error).some(
    (each) => conflictStates.has(codeOf(each)) || isSqlite(each, 'SQLITE_BUSY', 'SQLITE_LOCKED'),
  );
}

const outageStates = new Set(['57P01', '57P02', '57P03', '53300']);

/** The server says, or the library by a code of its own, or our storage, that there is no connection (any more). */
export function isOutage(error: unknown): boolean {
  if (isDatabaseError(error)) return true;
  return causes(error).some((each) => {
    const state = sqlState(each);
    if (state !== undefined) return state.startsWith('08') || outageStates.has(state);
    return /^CONNECTION_(CLOSED|ENDED|DESTROYED)$|^CONNECT_TIMEOUT$/.test(codeOf(each));
  });
}

/** The server had no time for a statement of ours, behind somebody's lock, or no room: another time it may have. */
export function isPutOff(error: unknown): boolean {
  return causes(error).some((each) => /^(55P03|57014|53...|58...)$/.test(sqlState(each) ?? ''));
}

/**
 * The server takes no changes: after a failover, the old primary. Another connection may lead to the new one. Of a
 * transaction that was begun as read-only it says nothing about the server.
 */
export function isReadOnlyServer(error: unknown): boolean {
  return causes(error).some(standsWrong);
}

/** A statement has failed before, and Postgres takes no more of them in this transaction. */
export function isAborted(error: unknown): boolean {
  return causes(error).some((each) => sqlState(each) === '25P02');
}

const unreachable = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

/** The same of an attempt to connect, where such a code can be of nothing else. */
export function isUnreachable(error: unknown): boolean {
  return isOutage(error) || causes(error).some((each) => unreachable.has(codeOf(each)));
}

/** Nobody has said whether the transaction was committed: the connection was lost over it. */
export function isUnanswered(error: unknown): boolean {
  const all = causes(error);
  if (all.some((each) => sqliteCode(each) !== '')) return false;
  return all.length > 0 && all.every((each) => classifyPostgres(each) === 'lost');
}
