import { describeError, isHoldfastError } from '../../../model/errors.js';

/**
 * Runs a transaction of a library. If it fails before the work has begun, and the error has no code, then no connection
 * could be opened: pools report a timeout of this wait by an error without a code. Nothing has happened in this case.
 * The error therefore gets the code of a refused connection, and the step is retried. If the application has closed the
 * pool, retrying is useless, and the error stays as it is.
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
    if (hasBegun || statesCause(error) || isClosed(error)) throw error;
    const message = `A connection to the database could not be opened: ${describeError(error)}`;
    throw Object.assign(new Error(message, { cause: error }), { code: '08006' });
  }
}

/**
 * Returns true if the error states its cause: by a code, by the code of one of its causes, or by a class that stands
 * for a programming mistake.
 */
function statesCause(error: unknown): boolean {
  if (!(error instanceof Error) || isHoldfastError(error)) return true;
  const isMistake = error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError;
  return isMistake || 'code' in error || (error.cause !== undefined && statesCause(error.cause));
}
