import { describeError, HoldfastError, isHoldfastError } from '../../model/errors.js';
import { insufficientPrivilege, sqlState } from '../postgres/failures.js';
import type { Failure } from './failure-kind.js';

/** The error of a statement that failed because of the database, and not because of its data. */
export function databaseFailedError(statement: string, failure: Failure, cause: unknown): HoldfastError {
  return failed(statement, cause, failure === 'lost' ? 'unknown' : 'no');
}

/** The error of a statement that the database refuses until a person grants a right, or restores a table or column. */
export function unusableError(statement: string, cause: unknown): HoldfastError {
  const state = sqlState(cause);
  if (state === insufficientPrivilege) {
    return new HoldfastError(
      'RIGHTS_MISSING',
      `The role of this process lacks a right that "${statement}" needs (${describeError(cause)}). Connect as the ` +
        'owner of the tables, and run the grants at the end of the output of `npx holdfast schema --grants <role>`.',
      { cause, details: { statement } },
    );
  }
  return new HoldfastError(
    'SCHEMA_MISMATCH',
    `The database lacks a table, column or function that "${statement}" needs (${describeError(cause)}). Find out ` +
      'who changed the tables of Holdfast, and restore them.',
    { cause, details: { statement } },
  );
}

/** Returns true if a statement failed because of the database, and not because of its data. */
export function isDatabaseError(error: unknown): error is HoldfastError {
  return isHoldfastError(error, 'DATABASE_FAILED') || isUnusable(error);
}

/** Returns true for the errors of {@link unusableError}. */
export function isUnusable(error: unknown): error is HoldfastError {
  return isHoldfastError(error, 'RIGHTS_MISSING') || isHoldfastError(error, 'SCHEMA_MISMATCH');
}

/**
 * Runs work that follows a change in the same call. If the work fails, the error must not claim that the call changed
 * nothing: only a call whose first change fails may claim that. `hasChanged` is asked at the failure, for a call whose
 * earlier change may not have happened.
 */
export function afterChange<T>(work: () => Promise<T>, hasChanged = () => true): Promise<T> {
  return work().catch((error: unknown) => {
    if (!hasChanged()) throw error;
    if (!isHoldfastError(error, 'DATABASE_FAILED') || error.details.applied !== 'no') throw error;
    throw failed(error.details.statement, error.cause, 'in part');
  });
}

const appliedTexts = {
  no: 'The statement changed nothing.',
  unknown: 'The statement may or may not have been applied.',
  'in part': 'An earlier statement of the call may have been applied.',
};

function failed(statement: string, cause: unknown, applied: keyof typeof appliedTexts): HoldfastError {
  return new HoldfastError(
    'DATABASE_FAILED',
    `The database failed during "${statement}" (${describeError(cause)}). ${appliedTexts[applied]}`,
    { cause, details: { statement, applied: applied === 'no' ? 'no' : 'unknown' } },
  );
}
