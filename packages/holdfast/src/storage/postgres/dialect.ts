import { type ColumnType, type Dialect, type EffectList, enqueueBlock, isMarkedSuspended } from '../database.js';
import { few } from './estimates.js';
import { quoteIdentifier } from './identifiers.js';
import { mergeOf } from './merges.js';
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
 * The wording keeps the planner from matching the condition to the partial indexes on PENDING rows. On a new table
 * these indexes look cheaper than the primary key, and then each row of a batch scans all PENDING rows.
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
  columns: itemColumns,
  carry,
  keys,
}: EffectList<T>): string {
  const carriedColumns = [...keys.map(([name]) => name), ...carry].map((name) => `r.${quoteIdentifier(name)}`);
  const fields = Object.entries(itemColumns).map(([name, type]) => `${quoteIdentifier(name)} ${columnTypes[type]}`);
  const names = [...Object.keys(itemColumns), 'position'].map(quoteIdentifier);
  const rowKeys = keys.map(([name]) => `r.${quoteIdentifier(name)}`).join(', ');
  const mainKeys = keys.map(([, name]) => name).join(', ');
  return (
    `(select ${carriedColumns.join(', ')}, t.* from ${rows('r', columns, first)} cross join lateral ` +
    `rows from (json_to_recordset(r.${quoteIdentifier(list)}::json) as (${fields.join(', ')})) with ordinality ` +
    // `is true` keeps the planner from turning the condition into a join. On these connections the join would compare
    // every item with every reported row.
    `as t(${names.join(', ')}) where ((${rowKeys}) in (select ${mainKeys} from main where landed)) is true) e`
  );
}

type Composing = Pick<Dialect, 'exclusively' | 'perRow' | 'mixed' | 'joined' | 'together' | 'effects'>;

/** The members that compose a statement from parts. */
const composing: Composing = {
  exclusively: (change) => ({
    before: `guard as (${change} returning 1 as held)`,
    wrap: (before, main) =>
      `${before}, changed as (${main}) select changed.*, held.held ` +
      'from (select count(*) > 0 as held from guard) held left join changed on true',
  }),
  perRow: (columns, first, merge) =>
    `${rows('r', columns, first)} ${mergeOf(merge((name) => `r.${quoteIdentifier(name)}`))}`,
  mixed: (perRow) => `${perRow}.mixed`,
  joined: ({ alias, each }, select) =>
    `${each ? 'left' : 'inner'} join lateral (${select((name) => `r.${quoteIdentifier(name)}`)}) ${alias} on true`,
  together: (main, also) => ({
    text: `with ${[`main as (${main})`, ...also.map((text, i) => `also${i} as (${text})`)].join(', ')} select * from main`,
  }),
  effects,
};

const locking: Pick<Dialect, 'lockOrder' | 'forUpdate' | 'forUpdateSkipLocked' | 'forShare' | 'locksRows'> = {
  lockOrder: (workflowId) => `${workflowId} collate "C"`,
  // The lock is not `for update`: with that lock, a claim and the foreign key check of a message that is being sent to
  // the workflow wait for each other. No statement changes a column that a foreign key refers to.
  forUpdate: 'for no key update',
  forUpdateSkipLocked: 'for no key update skip locked',
  forShare: 'for share',
  locksRows: true,
};

/**
 * These members call functions that read the queue after they have waited for its lock. See migrations/queue-locks.ts.
 */
const queueLocks = (prefix: string): Pick<Dialect, 'holdLockVersion' | 'holdQueues' | 'closeQueue'> => ({
  holdLockVersion: (queue, lockVersion) =>
    `select 1 from ${prefix}.holdfast_hold_turn(${queue}, ${lockVersion}) as turn(held) where held`,
  holdQueues: (names) =>
    `select name from ${prefix}.holdfast_hold_queues(${names ? `array(${names})` : 'null'}) as held(name)`,
  // Locks the row first, because processes of an older release lock the row.
  closeQueue: (name) =>
    `with closed as materialized (select q.name from ${prefix}.queues q where q.name = ${name} for update) ` +
    `select ${prefix}.holdfast_close_queue(name) from closed`,
});

export function postgresDialect(schema: string): Dialect {
  const prefix = quoteIdentifier(schema);
  return {
    name: 'postgres',
    ...composing,
    ...queueLocks(prefix),
    table: (name) => `${prefix}.${name}`,
    rows,
    anyOf: (expression, parameter) => `${expression} = any(${parameter}::text[])`,
    jsonRows: (alias, columns, parameter) => {
      const fields = Object.entries(columns).map(([name, type]) => `${quoteIdentifier(name)} ${columnTypes[type]}`);
      // The parameter is cast to text first: a driver would encode a JSON parameter as JSON again.
      return `json_to_recordset(${parameter}::text::json) as ${alias}(${fields.join(', ')})`;
    },
    list: (values) => values,
    // Probes the primary key once per row. A plain join over the array is planned as a hash join over the whole table,
    // which makes each batch quadratic.
    fence: (workflowId, owner) =>
      `cross join lateral (select 1 from ${prefix}.workflow_status w where w.workflow_uuid = ${workflowId} ` +
      `and w.owner_xid = ${owner} and ${stillPending('w')} for share) fence`,
    few,
    // Probes the index once per parent; the limit prevents another plan. A plain join in a recursive query may be
    // planned as a hash join over every workflow that has a parent.
    children: (parentId) =>
      `cross join lateral (${few(`select * from ${prefix}.workflow_status where parent_workflow_id = ${parentId}`)}) c`,
    stillPending,
    // In these words, the condition matches only the index with the same words, and no other index on PENDING rows. The
    // other indexes contain the sleeping workflows of all queues.
    holdsSlot: (alias) => `${stillPending(alias)} and ${isMarkedSuspended(alias)} is not true`,
    isSuspendedRow: (alias) => `${stillPending(alias)} and ${isMarkedSuspended(alias)}`,
    // Compares rows, because an index on the last column alone cannot answer a comparison of rows. The planner might
    // prefer that index for a comparison of the last column.
    equalAndAfter: (equal, after) => {
      const [columns, values] = [0, 1].map((side) => [...equal, after].map((pair) => pair[side]).join(', '));
      return `${equal.map((pair) => pair.join(' = ')).join(' and ')} and (${columns}) > (${values})`;
    },
    token: 'gen_random_uuid()::text',
    landed: 'exists (select 1 from main where landed)',
    ...locking,
    enqueueSeq: {
      // Takes one number of the sequence for the whole statement. Rows are inserted in the lock order, which is the
      // order of their IDs. But the queue must run them in the order in which they were given.
      before: `enqueue_turn as materialized (select nextval('${prefix.replaceAll("'", "''")}.holdfast_enqueue_seq') as n)`,
      value: (position) => `(select n from enqueue_turn) * ${enqueueBlock} + ${position}`,
    },
    // Messages from before the column existed have no number and come first.
    messageOrder: 'send_seq nulls first, created_at_epoch_ms',
    now,
    notBeforeNow,
    presence,
    // Uses the start time in the locked row: after this statement searched for steps, a former owner may have run the
    // workflow and put it back. Also checks for steps: DBOS may have cleared the start time of a workflow with steps.
    neverRan: (startedBefore) =>
      `(${startedBefore} is null and not exists (select 1 from ${prefix}.operation_outputs o ` +
      `where o.workflow_uuid = w.workflow_uuid))`,
  };
}
