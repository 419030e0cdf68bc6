import type { Dialect } from '../database.js';

/**
 * Inputs and outcomes of workflows. Ours are in `workflow_status`; DBOS 5 leaves its columns there NULL and keeps them in
 * `workflow_input` and `workflow_output`, which an SDK of either side finds empty for the workflows of the other.
 *
 * Our own row comes first: DBOS 5 adds a row with the arguments of a start even if it finds the ID taken, and the
 * arguments of the first start count. Both are expressions of a row whose ID is in scope as `workflow_uuid`. The second
 * table is read for rows without a value of their own only.
 */
export function storedInputs(d: Dialect, inputs = 'inputs', workflowId = 'workflow_uuid'): string {
  return `coalesce(${inputs}, ${payload(d, 'workflow_input', 'inputs', workflowId)})`;
}

/** A workflow that ended has an output or an error: if it has neither in its row, both are those of the other table. */
export function storedOutcome(d: Dialect, column: 'output' | 'error'): string {
  const elsewhere = payload(d, 'workflow_output', column, 'workflow_uuid');
  return `case when coalesce(output, error) is null then ${elsewhere} else ${column} end`;
}

/** Columns of other names, so that `workflow_uuid` in here means that of the row outside. */
function payload(d: Dialect, table: string, column: string, workflowId: string): string {
  const renamed = `select workflow_uuid as payload_id, ${column} as payload from ${d.table(table)}`;
  return `(select p.payload from (${renamed}) p where p.payload_id = ${workflowId})`;
}

/** The tables of payloads. Neither has a foreign key: what is deleted takes its payloads along. */
export const payloadTables = ['workflow_input', 'workflow_output'] as const;
