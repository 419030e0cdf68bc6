import { type Columns, type ColumnType, type Dialect, everyRow, isMarkedSuspended } from '../database.js';
import { mergeOf } from './merges.js';

/** Returns the parameter for a column. Each execution of the statement handles one row. */
function parameterOf<T extends object>(columns: Columns<T>, first: number): (name: string) => string {
  const names = Object.keys(columns);
  return (name) => `$${first + names.indexOf(name)}`;
}

const now = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer)";

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  table: (name) => name,
  // Each execution handles one row: the driver repeats the statement for each row of a batch.
  rows: (alias, columns, first) => {
    const entries = Object.entries(columns) as [string, ColumnType][];
    return `(select ${entries.map(([name], i) => `$${first + i} as "${name}"`).join(', ')}) as ${alias}`;
  },
  anyOf: (expression, parameter) => `${expression} in (select value from json_each(${parameter}))`,
  jsonRows: (alias, columns, parameter) => {
    const fields = Object.keys(columns).map((name) => `value ->> '${name}' as "${name}"`);
    return `(select ${fields.join(', ')} from json_each(${parameter})) as ${alias}`;
  },
  list: (values) => JSON.stringify(values),
  // No lock is needed: a writing transaction begins with BEGIN IMMEDIATE and is the only writer.
  fence: (workflowId, owner) =>
    `join workflow_status fence on fence.workflow_uuid = ${workflowId} and fence.owner_xid = ${owner} ` +
    `and fence.status = 'PENDING'`,
  few: (select) => select,
  children: (parentId) => `join workflow_status c on c.parent_workflow_id = ${parentId}`,
  stillPending: (alias) => `${alias}.status = 'PENDING'`,
  holdsSlot: (alias) => `${alias}.status = 'PENDING' and ${isMarkedSuspended(alias)} is not true`,
  isSuspendedRow: (alias) => `${alias}.status = 'PENDING' and ${isMarkedSuspended(alias)}`,
  equalAndAfter: (equal, after) => [...equal.map((pair) => pair.join(' = ')), after.join(' > ')].join(' and '),
  token: 'lower(hex(randomblob(16)))',
  landed: 'true',
  lockOrder: (workflowId) => workflowId,
  forUpdate: '',
  forUpdateSkipLocked: '',
  forShare: '',
  holdLockVersion: (queue, lockVersion) =>
    `select 1 from queues where name = ${queue} and turn = ${lockVersion} and not paused`,
  holdQueues: (names) => `select name from queues where ${names ? `name in (${names})` : everyRow('name')}`,
  locksRows: false,
  enqueueSeq: {
    before: '',
    value: (position) =>
      `(select coalesce(max(enqueue_seq), 0) + 1 from workflow_status where enqueue_seq is not null) + ${position}`,
  },
  exclusively: (change) => ({
    before: 'guard as (select 1 as held)',
    guard: change,
    wrap: (before, main) => `${before} ${main}`,
  }),
  // Here too, each execution handles one row. A LIMIT cannot name a column, so the parameters of the row replace its
  // columns.
  perRow: (columns, first, merge) => {
    const parameter = parameterOf(columns, first);
    return mergeOf(merge(parameter), parameter('n'));
  },
  mixed: () => 'false',
  joined: ({ alias, each, columns, first }, select) =>
    `${each ? 'left' : 'inner'} join (${select(parameterOf(columns, first))}) ${alias} on true`,
  together: (text, also) => ({ text, also }),
  effects: ({ rows, first, list, columns, carry, keys }) => {
    const parameter = parameterOf(rows, first);
    const carried = [...keys.map(([name]) => name), ...carry].map((name) => `${parameter(name)} as "${name}"`);
    const fields = Object.keys(columns).map((name) => `value ->> '${name}' as "${name}"`);
    return `(select ${[...carried, ...fields].join(', ')}, key as position from json_each(${parameter(list)})) e`;
  },
  messageOrder: 'rowid',
  now,
  notBeforeNow: (instant) =>
    `case when ${now} between ${instant} and ${instant} + 3600000 then ${now} else ${instant} end`,
  // RETURNING knows the table only by its own name. A retry may have deleted the records of all steps of a workflow
  // that did run.
  neverRan: () =>
    'workflow_status.retries is null and ' +
    'not exists (select 1 from operation_outputs o where o.workflow_uuid = workflow_status.workflow_uuid) ' +
    'and not exists (select 1 from step_attempts a where a.workflow_uuid = workflow_status.workflow_uuid)',
  presence: { before: '', of: () => 'null' },
};
