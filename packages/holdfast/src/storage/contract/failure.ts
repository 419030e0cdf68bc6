import { describeError, HoldfastError, isHoldfastError } from '../../model/errors.js';
import type { Failure } from '../database.js';
import { insufficientPrivilege, sqlState } from '../postgres/failures.js';

/** The database failed under one statement, and not by its data. */
export function databaseFailed(statement: string, failure: Failure, cause: unknown): HoldfastError {
  return failed(statement, cause, failure === 'lost' ? 'unknown' : 'no');
}

/** The database will refuse this statement until a person grants a right, or puts a table or column back. */
export function unusable(statement: string, cause: unknown): HoldfastError {
  const state = sqlState(cause);
  if (state === insufficientPrivilege) {
    return new HoldfastError(
      'RIGHTS_MISSING',
      `The role of this process lacks a right that "${statement}" needs (${describeError(cause)}). Run the grants at the end ` +
        'of what `npx holdfast schema --grants <role>` prints, as the owner of the tables.',
      { cause, details: { statement } },
    );
  }
  return new HoldfastError(
    'SCHEMA_MISMATCH',
    `The database lacks something that "${statement}" needs (${describeError(cause)}). Find out who has changed the ` +
      'tables of Holdfast, and restore them.',
    { cause, details: { statement } },
  );
}

/** A statement failed by the database, and not by its data. */
export function isDatabaseError(error: unknown): error is HoldfastError {
  return isHoldfastError(error, 'DATABASE_FAILED') || isUnusable(error);
}

/** See {@link unusable}. */
export function isUnusable(error: unknown): error is HoldfastError {
  return isHoldfastError(error, 'RIGHTS_MISSING') || isHoldfastError(error, 'SCHEMA_MISMATCH');
}

/**
 * Runs what follows a change in the same call, or may follow one (`hasChanged` is asked when it fails). Then it is not so
 * that the call changed nothing, whatever became of its last statement: only a call whose first change fails may say that.
 */
export function afterChange<T>(work: () => Promise<T>, hasChanged = () => true): Promise<T> {
  return work().catch((error: unknown) => {
    if (!hasChanged()) throw error;
    if (!isHoldfastError(error, 'DATABASE_FAILED') || error.details.applied !== 'no') throw error;
    throw failed(error.details.statement, error.cause, 'in part');
  });
}

const said = {
  no: 'It changed nothing.',
  unknown: 'Whether it was applied is not known.',
  'in part': 'Something of the call may have been applied before.',
};

function failed(statement: string, cause: unknown, became: keyof typeof said): HoldfastError {
  return new HoldfastError(
    'DATABASE_FAILED',
    `The database failed under "${statement}" (${describeError(cause)}). ${said[became]}`,
    { cause, details: { statement, applied: became === 'no' ? 'no' : 'unknown' } },
  );
}
