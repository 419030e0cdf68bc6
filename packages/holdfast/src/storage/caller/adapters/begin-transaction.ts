import { describeError, isHoldfastError } from '../../../model/errors.js';

/**
 * Runs a library's own transaction. If it fails before the work has begun, and nobody says by a code why, there was no
 * connection: pools have no code for it that none of theirs came free in time. Nothing has happened then, so that the step is
 * tried again, as it is when the server refuses a connection. Whoever closed the pool has only himself to wait for.
 */
export async function beginTransaction<Tx, R>(
  work: (tx: Tx) => Promise<R>,
  transact: (work: (tx: Tx) => Promise<R>) => Promise<R>,
  isClosed: (error: unknown) => boolean,
): Promise<R> {
  let hasBegun = false;
  try {
    return await transact((tx) => {
      hasBegun = true;
      return work(tx);
    });
  } catch (error) {
    if (hasBegun || saysWhy(error) || isClosed(error)) throw error;
    const message = `A connection to the database could not be opened: ${describeError(error)}`;
    throw Object.assign(new Error(message, { cause: error }), { code: '08006' });
  }
}

/** By a code, its own or one of its causes; or by its class, which is that of a mistake in code. */
function saysWhy(error: unknown): boolean {
  if (!(error instanceof Error) || isHoldfastError(error)) return true;
  const isMistake = error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError;
  return isMistake || 'code' in error || (error.cause !== undefined && saysWhy(error.cause));
}
