import type { Dialect } from '../database.js';

/**
 * Inputs and outcomes of workflows. Holdfast stores them in `workflow_status`. DBOS 5 leaves these columns NULL and
 * stores the values in `workflow_input` and `workflow_output`. Each library leaves the places of the other empty.
 *
 * The value in `workflow_status` comes first. DBOS 5 adds a row with the arguments of a start even if the ID is
 * taken, and the arguments of the first start count. Both functions return expressions over a row whose ID is in
 * scope as `workflow_uuid`. The second table is read only for rows without a value in `workflow_status`.
 */
export function storedInputs(d: Dialect, inputs = 'inputs', workflowId = 'workflow_uuid'): string {
  return `coalesce(${inputs}, ${payload(d, 'workflow_input', 'inputs', workflowId)})`;
}

/** An ended workflow has an output or an error. If its row has neither, both are in the table of DBOS 5. */
export function storedOutcome(d: Dialect, column: 'output' | 'error'): string {
  const inDbosTable = payload(d, 'workflow_output', column, 'workflow_uuid');
  return `case when coalesce(output, error) is null then ${inDbosTable} else ${column} end`;
}

/** The columns of the table are renamed, so that `workflow_uuid` in the subquery means the column of the outer row. */
function payload(d: Dialect, table: string, column: string, workflowId: string): string {
  const renamed = `select workflow_uuid as payload_id, ${column} as payload from ${d.table(table)}`;
  return `(select p.payload from (${renamed}) p where p.payload_id = ${workflowId})`;
}

/** The payload tables of DBOS 5. They have no foreign key, so a deletion must delete the payloads itself. */
export const payloadTables = ['workflow_input', 'workflow_output'] as const;
