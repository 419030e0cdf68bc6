import type { Dialect } from '../database.js';

/**
 * Every statement that locks several workflows does so in the order of their IDs: two that met in different orders
 * would wait for each other until the database broke one of them off, a second later.
 *
 * Statements that find their rows themselves say `order by` with `dialect.lockOrder`, which sorts alike.
 */
export function inLockOrder<T>(d: Dialect, rows: readonly T[], workflowId: (row: T) => string): readonly T[] {
  if (!d.locksRows || rows.length < 2) return rows;
  return [...rows].sort((a, b) => {
    const first = workflowId(a);
    const second = workflowId(b);
    return first < second ? -1 : first > second ? 1 : 0;
  });
}
