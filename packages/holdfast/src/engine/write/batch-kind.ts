import { describeError, HoldfastError } from '../../model/errors.js';
import { isUnusable } from '../../storage/contract/failure.js';

/**
 * One kind of write that is grouped into batches.
 *
 * Writes must be idempotent under repetition: after a lost connection the same rows are sent again, and `write` tells
 * for each row how it stands now (see checkpoints.ts, which reads back what was not confirmed).
 */
export interface BatchKind<T, R> {
  readonly name: string;
  /** How many statements may be under way at once (default 1). With more, rows may be committed out of order. */
  readonly lanes?: number;
  /**
   * One statement for all items; resolves with a result per item, in order. An impatient one waits for the locks of others
   * a moment only (`Storage.impatient`).
   */
  write(items: readonly T[], impatient?: boolean): Promise<R[]>;
  /** Resolves when it may be written, or undefined if that is now. Asked before each statement, also a repeated one. */
  untilAllowed?(): Promise<void> | undefined;
  /** What a lock is held on. Of one key, what is submitted first is written first, whoever holds it up. */
  key(item: T): string;
  /** About how many characters the item adds to the statement. */
  weigh(item: T): number;
  /**
   * True for an item that somebody outside of workflows waits for: if the role lacks a right, or a table is missing, that caller
   * is told. Nothing is lost, because nothing has been done yet. Without it, the item waits until the database takes it.
   */
  failsFast?(item: T): boolean;
  /** Hears whether the database refuses to write anything of this kind at the moment, for lack of a right or a table. */
  refused?(error: Error | null): void;
  /** True for an item that keeps the database busy for long: the others do not wait for it. For kinds with one lane only. */
  takesLong?(item: T): boolean;
}

/** One item of a batch, with whoever waits for it. */
export interface Entry<T, R> {
  readonly item: T;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/** What one statement takes. */
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
