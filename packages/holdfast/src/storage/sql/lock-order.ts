import type { Dialect } from '../database.js';

/**
 * Sorts rows by workflow ID. Every statement that locks several workflows locks them in this order. Two statements
 * with different orders could deadlock, and the database would abort one of them only after a second.
 *
 * Statements that find their rows themselves use `order by` with `dialect.lockOrder`, which gives the same order.
 */
export function inLockOrder<T>(d: Dialect, rows: readonly T[], workflowId: (row: T) => string): readonly T[] {
  if (!d.locksRows || rows.length < 2) return rows;
  return [...rows].sort((a, b) => {
    const first = workflowId(a);
    const second = workflowId(b);
    return first < second ? -1 : first > second ? 1 : 0;
  });
}
