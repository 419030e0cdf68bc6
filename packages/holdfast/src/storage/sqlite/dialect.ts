import type { ColumnType, Dialect } from '../database.js';

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  table: (name) => name,
  // One row per execution of the statement: the driver repeats it for each row of a batch.
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
  // No lock: a writing transaction begins with BEGIN IMMEDIATE and has the database to itself.
  fence: (workflowId, owner) =>
    `join workflow_status fence on fence.workflow_uuid = ${workflowId} and fence.owner_xid = ${owner} ` +
    `and fence.status = 'PENDING'`,
  children: (parentId) => `join workflow_status c on c.parent_workflow_id = ${parentId}`,
  stillPending: (alias) => `${alias}.status = 'PENDING'`,
  lockOrder: (workflowId) => workflowId,
  forUpdate: '',
  forUpdateSkipLocked: '',
};
