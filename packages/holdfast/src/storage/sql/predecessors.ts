import type { Dialect } from '../database.js';

/** The columns of `After`. Every row that an execution writes has these columns. */
export const afterColumns = { afterStep: 'int', afterSeq: 'int', afterAlso: 'text' } as const;

/**
 * Returns a condition: the steps that row `r` of a batch names as its predecessors are in the history. The check
 * costs one probe of the primary key per predecessor, and nothing for a row without predecessors. The predecessors
 * were committed before the row was submitted, so the condition fails only if the database was restored to an earlier
 * state.
 *
 * Each probe is a scalar subquery. For an EXISTS, Postgres may read the whole table into a hash.
 */
export function predecessorsOnRecord(d: Dialect, workflowId = 'r."workflowId"'): string {
  const seqOf = (step: string): string =>
    `(select p.completion_seq from ${d.table('operation_outputs')} p ` +
    `where p.workflow_uuid = ${workflowId} and p.function_id = ${step})`;
  const others = d.jsonRows('x', { step: 'int', seq: 'int', child: 'text' }, 'r."afterAlso"');
  const child = `(select 1 from ${d.table('workflow_status')} c where c.workflow_uuid = x.child)`;
  const missing =
    `select 1 from ${others} where case when x.child is null then coalesce(${seqOf('x.step')}, -1) <> x.seq ` +
    `else ${child} is null end`;
  return (
    `(r."afterStep" is null or r."afterSeq" = ${seqOf('r."afterStep"')}) ` +
    `and (r."afterAlso" is null or not exists (${missing}))`
  );
}
