import { type ColumnType, type Dialect, type EffectList, enqueueBlock, isAtRest } from '../database.js';
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

type Composing = Pick<Dialect, 'exclusively' | 'perRow' | 'mixed' | 'joined' | 'together' | 'effects'>;

/** How statements are put together from parts. */
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
  // Not the strongest lock: that would make the foreign key of a message that is just being sent to the workflow wait,
  // and be waited for. No statement changes what a foreign key refers to.
  forUpdate: 'for no key update',
  forUpdateSkipLocked: 'for no key update skip locked',
  forShare: 'for share',
  locksRows: true,
};

/** By functions that look at the queue after they have waited for its lock: migrations/queue-locks.ts says why. */
const queueLocks = (prefix: string): Pick<Dialect, 'heldTurn' | 'heldQueues' | 'closedQueue'> => ({
  heldTurn: (queue, turn) => `select 1 from ${prefix}.holdfast_hold_turn(${queue}, ${turn}) as turn(held) where held`,
  heldQueues: (names) =>
    `select name from ${prefix}.holdfast_hold_queues(${names ? `array(${names})` : 'null'}) as held(name)`,
  // The row first, which is what those of an older release hold.
  closedQueue: (name) =>
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
