import { type ColumnType, type Dialect, type EffectList, enqueueBlock, isAtRest, type Merge } from '../database.js';
import { quoteIdentifier } from './identifiers.js';
import { presence } from './presence.js';

const columnTypes: Record<ColumnType, string> = {
  text: 'text',
  int: 'int',
  bigint: 'bigint',
  double: 'double precision',
  bool: 'bool',
  json: 'jsonb',
};

/**
 * Written so that the planner cannot match it to the partial indexes on PENDING rows. On a young table they look
 * cheaper than the primary key, and then each row of a batch scans everything that is PENDING.
 */
const stillPending = (alias: string): string => `${alias}.status || '' = 'PENDING'`;

const hourMs = 3_600_000;

const now = '(extract(epoch from clock_timestamp()) * 1000)::bigint';

const notBeforeNow = (instant: string): string =>
  `case when ${now} between ${instant} and ${instant} + ${hourMs} then ${now} else ${instant} end`;

const rows: Dialect['rows'] = (alias, columns, first) => {
  const entries = Object.entries(columns) as [string, ColumnType][];
  const arrays = entries.map(([, type], i) => `$${first + i}::${columnTypes[type]}[]`);
  return `unnest(${arrays.join(', ')}) as ${alias}(${entries.map(([name]) => quoteIdentifier(name)).join(', ')})`;
};

function effects<T extends object>({
  rows: columns,
  first,
  list,
  columns: things,
  carry,
  keys,
}: EffectList<T>): string {
  const carried = [...keys.map(([name]) => name), ...carry].map((name) => `r.${quoteIdentifier(name)}`);
  const fields = Object.entries(things).map(([name, type]) => `${quoteIdentifier(name)} ${columnTypes[type]}`);
  const names = [...Object.keys(things), 'position'].map(quoteIdentifier);
  const given = keys.map(([name]) => `r.${quoteIdentifier(name)}`).join(', ');
  const reported = keys.map(([, name]) => name).join(', ');
  return (
    `(select ${carried.join(', ')}, t.* from ${rows('r', columns, first)} cross join lateral ` +
    `rows from (json_to_recordset(r.${quoteIdentifier(list)}::json) as (${fields.join(', ')})) with ordinality ` +
    // `is true` keeps the condition from becoming a join, which on these connections would compare each with each.
    `as t(${names.join(', ')}) where ((${given}) in (select ${reported} from main where landed)) is true) e`
  );
}

/**
 * A query that locks rows cannot merge two. So it is found out first, without locks, how many come from which stretch,
 * and then that many are locked in each: without others at work, exactly the first. It is only looked into where rows
 * wait in both; usually it takes one probe for each.
 */
function mergeOf({ columns, stretches, condition, order, orderOfStretch }: Merge) {
  const [first = '', second = ''] = stretches;
  // In the order of the index, which the planner may otherwise pass over for one that leads to the whole queue.
  const any = (stretch: string): string =>
    `(select count(*) from (select 1 ${stretch} order by ${orderOfStretch} limit 1) t) > 0`;
  const head = (stretch: string, own: boolean): string =>
    `select * from (select ${own} as own, priority, enqueue_seq, created_at ${stretch} and ${condition} ` +
    `order by ${orderOfStretch} limit r.n) t`;
  const heads = `${head(first, true)} union all ${head(second, false)}`;
  const ownOfHeads = `(select count(*) filter (where own) from (select own from (${heads}) t order by ${order} limit r.n) t)`;
  const locked = (stretch: string, most: string): string =>
    `select * from (select ${columns} ${stretch} and ${condition} order by ${orderOfStretch} ` +
    `limit ${most} for no key update skip locked) t`;
  const taken = `${locked(first, 'share.own')} union all ${locked(second, 'r.n - share.own')}`;
  return {
    share:
      `select case when not s.second then r.n when not s.first then 0 else ${ownOfHeads} end as own, ` +
      `s.first and s.second as mixed from (select ${any(first)} as first, ${any(second)} as second offset 0) s offset 0`,
    taken: `select t.*, share.mixed from (${taken}) t`,
  };
}

type Composing = Pick<Dialect, 'exclusively' | 'perRow' | 'mixed' | 'joined' | 'together' | 'effects'>;

/** How statements are put together from parts. */
const composing: Composing = {
  exclusively: (change) => ({
    before: `guard as (${change} returning 1 as held)`,
    wrap: (before, main) =>
      `${before}, changed as (${main}) select changed.*, held.held ` +
      'from (select count(*) > 0 as held from guard) held left join changed on true',
  }),
  perRow: (columns, first, merge) => {
    const { share, taken } = mergeOf(merge((name) => `r.${quoteIdentifier(name)}`));
    return `${rows('r', columns, first)} cross join lateral (${share}) share cross join lateral (${taken}) per_row`;
  },
  mixed: (perRow) => `${perRow}.mixed`,
  joined: ({ alias, each }, select) =>
    `${each ? 'left' : 'inner'} join lateral (${select((name) => `r.${quoteIdentifier(name)}`)}) ${alias} on true`,
  together: (main, also) => ({
    text: `with ${[`main as (${main})`, ...also.map((text, i) => `also${i} as (${text})`)].join(', ')} select * from main`,
  }),
  effects,
};

const locking: Pick<
  Dialect,
  'lockOrder' | 'forUpdate' | 'forUpdateSkipLocked' | 'forShare' | 'forKeyShare' | 'locksRows'
> = {
  lockOrder: (workflowId) => `${workflowId} collate "C"`,
  // Not the strongest lock: that would make the foreign key of a message that is just being sent to the workflow wait,
  // and be waited for. No statement changes what a foreign key refers to.
  forUpdate: 'for no key update',
  forUpdateSkipLocked: 'for no key update skip locked',
  forShare: 'for share',
  forKeyShare: 'for key share',
  locksRows: true,
};

/** Of a limit that is not a constant the planner expects a tenth of the rows. This one is none. */
const noLimit = 'limit (select null::bigint)';

const few = (select: string): string =>
  ['tenth', 'hundredth', 'thousandth'].reduce(
    (query, part) => `select * from (${query} ${noLimit}) ${part}`,
    `select * from (${select}) whole`,
  );

export function postgresDialect(schema: string): Dialect {
  const prefix = quoteIdentifier(schema);
  return {
    name: 'postgres',
    ...composing,
    table: (name) => `${prefix}.${name}`,
    rows,
    anyOf: (expression, parameter) => `${expression} = any(${parameter}::text[])`,
    jsonRows: (alias, columns, parameter) => {
      const fields = Object.entries(columns).map(([name, type]) => `${quoteIdentifier(name)} ${columnTypes[type]}`);
      // By way of a text, because a driver that sees a parameter of JSON makes JSON of what is JSON already.
      return `json_to_recordset(${parameter}::text::json) as ${alias}(${fields.join(', ')})`;
    },
    list: (values) => values,
    // A probe per row through the primary key. As a plain join over the array it is planned as a hash join over the
    // whole table and each batch becomes quadratic.
    fence: (workflowId, owner) =>
      `cross join lateral (select 1 from ${prefix}.workflow_status w where w.workflow_uuid = ${workflowId} ` +
      `and w.owner_xid = ${owner} and ${stillPending('w')} for share) fence`,
    few,
    // A probe per parent (a limit keeps it one). As a plain join in a recursive query it may be planned as a hash join
    // over every workflow that has a parent.
    children: (parentId) =>
      `cross join lateral (${few(`select * from ${prefix}.workflow_status where parent_workflow_id = ${parentId}`)}) c`,
    stillPending,
    // So worded, only the index that has these very words fits, and none of the others on PENDING rows: they hold all that
    // sleep, on whatever queue.
    holdsSlot: (alias) => `${stillPending(alias)} and ${isAtRest(alias)} is not true`,
    rests: (alias) => `${stillPending(alias)} and ${isAtRest(alias)}`,
    // A comparison of rows is of no use to an index over the last column alone, which the planner may otherwise prefer.
    equalAndAfter: (equal, after) => {
      const [columns, values] = [0, 1].map((side) => [...equal, after].map((pair) => pair[side]).join(', '));
      return `${equal.map((pair) => pair.join(' = ')).join(' and ')} and (${columns}) > (${values})`;
    },
    token: 'gen_random_uuid()::text',
    landed: 'exists (select 1 from main where landed)',
    ...locking,
    enqueueSeq: {
      // One number from the sequence for the whole statement: rows are inserted in the order of their IDs, to lock in
      // that order, but are to be worked off in the order in which they were given.
      before: `enqueue_turn as materialized (select nextval('${prefix.replaceAll("'", "''")}.holdfast_enqueue_seq') as n)`,
      value: (position) => `(select n from enqueue_turn) * ${enqueueBlock} + ${position}`,
    },
    // Those from before there was an order come first.
    messageOrder: 'send_seq nulls first, created_at_epoch_ms',
    now,
    notBeforeNow,
    presence,
    // By its start as it is now, in the row that was locked: a former owner may have run it, and handed it back, since
    // this statement looked for steps. DBOS may have cleared the start of one that has steps.
    neverRan: (startedBefore) =>
      `(${startedBefore} is null and not exists (select 1 from ${prefix}.operation_outputs o ` +
      `where o.workflow_uuid = w.workflow_uuid))`,
  };
}
