import type { Merge } from '../database.js';
import { few } from './estimates.js';

/**
 * Returns two stretches of an index as the lateral source `per_row`, for a row `r` of a batch. The column `n` of the
 * row is the number of rows to take.
 *
 * A query that locks rows cannot merge several queries. Therefore the source first finds without locks how many rows
 * come from each stretch, and then locks that many rows in each stretch. Without concurrent claims these are exactly
 * the first rows.
 */
export function mergeOf(merge: Merge): string {
  return merge.firstCome ? byArrival(merge) : byPriority(merge);
}

/** The rows of both stretches are merged only if rows wait in both. Usually one probe of each stretch is enough. */
function byPriority(merge: Merge): string {
  const [first = '', second = ''] = merge.stretches;
  // The probe is ordered like the index. Otherwise the planner may choose another index, which leads to the whole
  // queue.
  const any = (stretch: string): string =>
    `(select count(*) from (select 1 ${stretch} order by ${merge.orderOfStretch} limit 1) t) > 0`;
  const heads = `${head(merge, first, 'true')} union all ${head(merge, second, 'false')}`;
  const ownOfHeads = `(select count(*) filter (where own) from (select own from (${heads}) t order by ${merge.order} limit r.n) t)`;
  const taken = `${locked(merge, first, 'share.own')} union all ${locked(merge, second, 'r.n - share.own')}`;
  const share =
    `select case when not s.second then r.n when not s.first then 0 else ${ownOfHeads} end as own, ` +
    `s.first and s.second as mixed from (select ${any(first)} as first, ${any(second)} as second offset 0) s offset 0`;
  return (
    `cross join lateral (${share}) share ` + `cross join lateral (select t.*, share.mixed from (${taken}) t) per_row`
  );
}

/**
 * Within a stretch, rows are in order of arrival only if they have the same priority. Therefore the source finds the
 * priorities of each stretch one by one, each by a probe of the index. It treats each priority as a separate stretch.
 * Usually there is only one priority.
 */
function byArrival(merge: Merge): string {
  const [first = '', second = ''] = merge.stretches;
  const lowest = (stretch: string): string => `(select priority ${stretch} order by ${merge.orderOfStretch} limit 1)`;
  const ranks = (name: string, stretch: string): string =>
    `${name}(rank) as (select ${lowest(stretch)} union all ` +
    `select ${lowest(`${stretch} and priority > below.rank`)} from (${few(`select rank from ${name} where rank is not null`)}) below)`;
  const places =
    'select true as own, rank from own_ranks where rank is not null ' +
    'union all select false, rank from other_ranks where rank is not null';
  const count = '(select count(*) from places)';
  const withRank = (stretch: string, place: string, own: boolean): string =>
    `${stretch} and ${own ? '' : 'not '}${place}.own and priority = ${place}.rank`;
  const heads =
    `${head(merge, withRank(first, 'p', true), 'p.own')} union all ` +
    head(merge, withRank(second, 'p', false), 'p.own');
  const chosen =
    `select own, rank, cast(r.n as bigint) as n from places where ${count} = 1 ` +
    'union all select own, priority, count(*) from (select h.own, h.priority from places p ' +
    `cross join lateral (${heads}) h where ${count} > 1 order by ${merge.order} limit r.n) t group by own, priority`;
  const placed = { ...merge, columns: `${merge.columns}, enqueue_seq as arrival, created_at as born` };
  const taken =
    `${locked(placed, withRank(first, 'c', true), 'c.n')} union all ` +
    locked(placed, withRank(second, 'c', false), 'c.n');
  return (
    `cross join lateral (with recursive ${ranks('own_ranks', first)}, ${ranks('other_ranks', second)}, places as materialized (${few(places)}), ` +
    `chosen as materialized (${few(chosen)}) ` +
    `select t.*, ${count} > 1 as mixed from chosen c cross join lateral (${taken}) t ` +
    'order by t.arrival nulls first, t.born) per_row'
  );
}

function head({ condition, orderOfStretch }: Merge, stretch: string, own: string): string {
  return (
    `select * from (select ${own} as own, priority, enqueue_seq, created_at ${stretch} and ${condition} ` +
    `order by ${orderOfStretch} limit r.n) t`
  );
}

function locked({ columns, condition, orderOfStretch }: Merge, stretch: string, max: string): string {
  return (
    `select * from (select ${columns} ${stretch} and ${condition} order by ${orderOfStretch} ` +
    `limit ${max} for no key update skip locked) t`
  );
}
