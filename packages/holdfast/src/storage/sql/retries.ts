import { streamEnds } from '../contract/messaging.js';
import type { NewRetry, Retries } from '../contract/retries.js';
import type { BatchStatement, Columns, Database, Dialect } from '../database.js';
import { partitionKey } from './queue-rows.js';

/** Retries failed workflows: one statement lets a workflow continue under its ID. */
export class SqlRetries implements Retries {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = retryStatements(database.dialect);
  }

  async retry(retry: NewRetry): Promise<{ queueName: string } | undefined> {
    const [row] = await this.database.batch(this.sql.retry, [], [retry]);
    return row && { queueName: row.queue_name as string };
  }

  async receipts(workflowId: string): Promise<number[]> {
    const rows = await this.database.query(this.sql.receipts, [workflowId]);
    return rows.map((row) => Number(row.consumed_by));
  }
}

const columns: Columns<NewRetry> = {
  workflowId: 'text',
  incarnation: 'text',
  createdAt: 'bigint',
  before: 'text',
  after: 'text',
  dropped: 'text',
  version: 'text',
  queueName: 'text',
  now: 'bigint',
};

function retryStatements(d: Dialect) {
  const queues = d.holdQueues();
  // The other columns get the same values as in `resume`. If the workflow has a timeout of its own, its deadline is
  // computed again at its next start.
  const main = [
    `update ${d.table('workflow_status')} as w set status = 'ENQUEUED', updated_at = r.now, owner_xid = null,`,
    `queue_name = case when queue_name in (${queues}) then queue_name else r."queueName" end,`,
    `queue_partition_key = ${partitionKey(d, 'queue_partition_key', 'queue_name')},`,
    'application_version = coalesce(r.version, application_version), executor_id = null, recovery_attempts = 0,',
    'first_started_at = null, resting_owner = null, workflow_deadline_epoch_ms = null, completed_at = null, output = null,',
    `error = null, status_reason = null, under_way = null, retries = r.after from ${d.rows('r', columns, 1)}`,
    `where w.workflow_uuid = r."workflowId" and w.status = 'ERROR' and w.created_at = r."createdAt"`,
    "and coalesce(w.incarnation, '') = coalesce(r.incarnation, '') and coalesce(w.retries, '') = coalesce(r.before, '')",
    'returning workflow_uuid, queue_name, true as landed',
  ].join(' ');
  const retry: BatchStatement<NewRetry> = {
    name: 'workflows.retry',
    columns,
    ...d.together(main, [
      `delete from ${d.table('operation_outputs')} where ${belongsToDroppedStep(d)}`,
      // DBOS 5 stores the outcome of its workflows in this table. With that outcome, the workflow would still look
      // ended to DBOS and to Holdfast.
      `delete from ${d.table('workflow_output')} where workflow_uuid = (select r."workflowId" from ${appliedRetry(d)})`,
      // The attempts of all steps are deleted, so that interrupted steps also get all their attempts again.
      `delete from ${d.table('step_attempts')} where workflow_uuid = (select r."workflowId" from ${appliedRetry(d)})`,
      `delete from ${d.table('workflow_events_history')} where ${belongsToDroppedStep(d)}`,
      `delete from ${d.table('streams')} where ${belongsToDroppedStep(d)} and value in (${streamEnds.map((end) => `'${end}'`).join(', ')})`,
      `update ${d.table('notifications')} set consumed = false, consumed_by = null ` +
        `where consumed and ${belongsToDroppedStep(d, 'destination_uuid', 'consumed_by')}`,
    ]),
  };
  return {
    retry,
    receipts: {
      name: 'workflows.receipts',
      text:
        `select consumed_by from ${d.table('notifications')} ` +
        'where destination_uuid = $1 and consumed and consumed_by is not null',
    },
  };
}

/** The row of the retry, if the retry was applied. */
const appliedRetry = (d: Dialect): string => `${d.rows('r', columns, 1)} where ${d.landed}`;

/**
 * Returns a condition: the row belongs to a step that the retry removes from the history. The rows are found by
 * workflow ID, on which all these tables have an index.
 */
function belongsToDroppedStep(d: Dialect, workflowId = 'workflow_uuid', stepNumber = 'function_id'): string {
  const numbers = d.jsonRows('x', { n: 'int' }, `(select r.dropped from ${appliedRetry(d)})`);
  return `${workflowId} = (select r."workflowId" from ${appliedRetry(d)}) and ${stepNumber} in (select x.n from ${numbers})`;
}
