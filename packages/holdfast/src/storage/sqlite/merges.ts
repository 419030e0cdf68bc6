import type { Merge } from '../database.js';

/** Returns the source `per_row`: the first `n` rows of two index ranges together. `n` is the name of a parameter. */
export function mergeOf(merge: Merge, n: string): string {
  return merge.firstCome ? byArrival(merge, n) : byPriority(merge, n);
}

/** SQLite reads both ranges side by side in index order, so a query of this form needs no sorting. */
function byPriority({ columns, stretches, condition, order }: Merge, n: string): string {
  const parts = stretches.map(
    (stretch) => `select ${columns}, priority, enqueue_seq, created_at ${stretch} and ${condition}`,
  );
  return `(${parts.join(' union all ')} order by ${order} limit ${n}) per_row`;
}

/**
 * Within a range, rows are in order of arrival only for the same priority. The query finds the priorities of a range
 * one after the other, each with one index probe. It reads the first rows of each priority and sorts only these.
 */
function byArrival({ columns, stretches, condition, order, orderOfStretch }: Merge, n: string): string {
  const lowest = (stretch: string): string => `(select priority ${stretch} order by ${orderOfStretch} limit 1)`;
  const ranks = stretches.map(
    (stretch, i) =>
      `ranks${i}(rank) as (select ${lowest(stretch)} union all ` +
      `select ${lowest(`${stretch} and priority > ranks${i}.rank`)} from ranks${i} where ranks${i}.rank is not null)`,
  );
  // There are few of these rows. The hint makes SQLite start a join with them; otherwise it would read the whole table.
  const isRank = 'likelihood(k.rank is not null, 0.0001)';
  const parts = stretches.map(
    (stretch, i) =>
      `select ${columns}, priority, enqueue_seq, created_at from ranks${i} k cross join workflow_status ` +
      `where ${isRank} and workflow_uuid in (select workflow_uuid ${stretch} and priority = k.rank ` +
      `and ${condition} order by ${orderOfStretch} limit ${n})`,
  );
  return `(with recursive ${ranks.join(', ')} ${parts.join(' union all ')} order by ${order} limit ${n}) per_row`;
}
