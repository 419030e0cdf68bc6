import { describeError, HoldfastError } from '../../model/errors.js';
import { isUnusable } from '../../storage/contract/failure.js';

/**
 * One kind of write that is grouped into batches.
 *
 * Writes must be idempotent. After a lost connection the same rows are sent again, and `write` returns the state of
 * each row. confirm-writes.ts reads the state of rows that were not confirmed.
 */
export interface BatchKind<T, R> {
  readonly name: string;
  /** Number of statements that may run at once (default 1). With more than one, rows may be committed out of order. */
  readonly lanes?: number;
  /**
   * Writes all items by one statement. Resolves with one result per item, in order. An impatient statement waits only
   * briefly for locks of other sessions (`Storage.impatient`).
   */
  write(items: readonly T[], impatient?: boolean): Promise<R[]>;
  /** Resolves when statements are allowed; undefined: now. Called before each statement, including repeated ones. */
  untilAllowed?(): Promise<void> | undefined;
  /**
   * The object that a lock of another session covers. Items with the same key are written in the order of submission.
   */
  key(item: T): string;
  /** Approximate number of characters that the item adds to the statement. */
  weigh(item: T): number;
  /**
   * True for an item that a caller outside of workflows waits for. If the role lacks a right or a table is
   * missing, the item fails and the caller gets the error. No work is lost, because the item has no effect yet. Other
   * items wait until the database accepts them.
   */
  failsFast?(item: T): boolean;
  /**
   * Called when the database refuses all writes of this kind because a right or table is missing. Called with null when
   * the database accepts them again.
   */
  refused?(error: Error | null): void;
  /** True for an item that takes the database long. Other items do not wait for it. Only for kinds with one lane. */
  takesLong?(item: T): boolean;
}

/** One item of a batch, with the functions that settle the promise of its caller. */
export interface Entry<T, R> {
  readonly item: T;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/** Limits of one statement: rows, and the sum of their weights in characters. */
export const maxRows = 1000;
export const maxWeight = 4_000_000;

export async function writeBatch<T, R>(
  kind: BatchKind<T, R>,
  batch: readonly Entry<T, R>[],
  impatient = false,
): Promise<void> {
  const items = batch.map((entry) => entry.item);
  const results = await kind.write(items, impatient);
  for (const [i, entry] of batch.entries()) entry.resolve(results[i] as R);
}

export function refusal(kindName: string, cause: unknown): HoldfastError {
  if (isUnusable(cause)) return cause;
  const message = `The database refused to store a value (${kindName}): ${describeError(cause)}.`;
  return new HoldfastError('STORAGE_REFUSED', message, { cause });
}
