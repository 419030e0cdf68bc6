import type { WorkflowFilter } from '../contract/storage.js';
import type { Dialect } from '../database.js';
import { workflowColumns } from './rows.js';

/** Builds the query of a workflow list. Its text depends on the filter. */
export function listQuery(d: Dialect, filter: WorkflowFilter): { text: string; params: unknown[] } {
  const params: unknown[] = [];
  const param = (value: unknown): string => `$${params.push(value)}`;
  const conditions = ['true'];
  if (filter.ids) conditions.push(d.anyOf('workflow_uuid', param(d.list(filter.ids))));
  if (filter.status) conditions.push(d.anyOf('status', param(d.list(filter.status))));
  if (filter.name !== undefined) conditions.push(`name = ${param(filter.name)}`);
  if (filter.executorId !== undefined) conditions.push(`executor_id = ${param(filter.executorId)}`);
  if (filter.version !== undefined) conditions.push(`application_version = ${param(filter.version)}`);
  if (filter.parentWorkflowId !== undefined) conditions.push(`parent_workflow_id = ${param(filter.parentWorkflowId)}`);
  if (filter.queue !== undefined) conditions.push(`queue_name = ${param(filter.queue)}`);
  if (filter.schedule !== undefined) conditions.push(`schedule_name = ${param(filter.schedule)}`);
  if (filter.forkedFrom !== undefined) conditions.push(`forked_from = ${param(filter.forkedFrom)}`);
  const direction = filter.newestFirst ? 'desc' : 'asc';
  const text =
    `select ${workflowColumns(d)} from ${d.table('workflow_status')} where ${conditions.join(' and ')} ` +
    `order by created_at ${direction}, workflow_uuid ${direction} ` +
    `limit ${param(filter.limit ?? 1000)} offset ${param(filter.offset ?? 0)}`;
  return { text, params };
}
