import type { Merge } from '../database.js';

/** Two stretches of an index as the source `per_row`, of which as many rows are taken as this parameter says. */
export function mergeOf(merge: Merge, n: string): string {
  return merge.firstCome ? byArrival(merge, n) : byPriority(merge, n);
}

/** Both stretches are read side by side, in their order: a query of this form needs no sorting. */
function byPriority({ columns, stretches, condition, order }: Merge, n: string): string {
  const parts = stretches.map(
    (stretch) => `select ${columns}, priority, enqueue_seq, created_at ${stretch} and ${condition}`,
  );
  return `(${parts.join(' union all ')} order by ${order} limit ${n}) per_row`;
}

/**
 * In each stretch rows are in order of arrival only within one priority. Its priorities are found one after the other, each
 * by a probe of the index; of each the first rows are looked at, and only these are sorted.
 */
function byArrival({ columns, stretches, condition, order, orderOfStretch }: Merge, n: string): string {
  const lowest = (stretch: string): string => `(select priority ${stretch} order by ${orderOfStretch} limit 1)`;
  const ranks = stretches.map(
    (stretch, i) =>
      `ranks${i}(rank) as (select ${lowest(stretch)} union all ` +
      `select ${lowest(`${stretch} and priority > ranks${i}.rank`)} from ranks${i} where ranks${i}.rank is not null)`,
  );
  // There are few, and whoever joins these rows to their table is to begin with them: else SQLite reads the whole table.
  const isRank = 'likelihood(k.rank is not null, 0.0001)';
  const parts = stretches.map(
    (stretch, i) =>
      `select ${columns}, priority, enqueue_seq, created_at from ranks${i} k cross join workflow_status ` +
      `where ${isRank} and workflow_uuid in (select workflow_uuid ${stretch} and priority = k.rank ` +
      `and ${condition} order by ${orderOfStretch} limit ${n})`,
  );
  return `(with recursive ${ranks.join(', ')} ${parts.join(' union all ')} order by ${order} limit ${n}) per_row`;
}
