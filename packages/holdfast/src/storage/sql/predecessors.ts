import type { Dialect } from '../database.js';

/** The columns of `After`, for every row that an execution writes. */
export const afterColumns = { afterStep: 'int', afterSeq: 'int', afterAlso: 'text' } as const;

/**
 * That what the row `r` of a batch names as its predecessors is on record: one probe of the primary key, or none for a row
 * that names none. They were committed before the row was submitted, so that this statement sees them wherever the
 * database has not gone back in time.
 *
 * Each probe is a scalar subquery: of an EXISTS, Postgres may read the whole table into a hash.
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
