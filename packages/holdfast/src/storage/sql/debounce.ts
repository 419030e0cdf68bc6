import type { DebouncedWorkflow } from '../contract/storage.js';
import type { Columns, Database, Dialect, Statement } from '../database.js';
import {
  enqueuedColumns,
  enqueueTargets,
  enqueueValues,
  heldQueues,
  queueExists,
  sameWorkflow,
  withSeq,
} from './enqueue.js';

/**
 * The call of a debouncer: one statement puts a workflow on its queue, or changes the one that waits under the key.
 *
 * The first call under a key starts the wait. While the workflow is DELAYED, each later call replaces the input and
 * restarts the wait, up to the cap. Calls under one key wait for each other at the lock of the row, so the input of
 * the last call to commit remains. When the workflow becomes ENQUEUED, its key is free again: a call that comes after
 * this moment starts a new workflow.
 */
export class Debounce {
  private readonly statement;

  constructor(private readonly database: Database) {
    this.statement = debounceStatement(database.dialect);
  }

  async call(row: DebouncedWorkflow): Promise<{ workflowId: string; delayUntil: number } | undefined> {
    const columns = Object.keys(debouncedColumns) as (keyof DebouncedWorkflow)[];
    const values = columns.map((column) => row[column]);
    const [found] = await this.database.query(this.statement, values);
    return found && { workflowId: found.workflow_uuid as string, delayUntil: Number(found.delay_until_epoch_ms) };
  }
}

const { parentOwner, position, afterStep, afterSeq, afterAlso, ...debouncedBase } = enqueuedColumns;
const debouncedColumns: Columns<DebouncedWorkflow> = { ...debouncedBase, debounceTimeoutMs: 'bigint' };

const replacedByLastCall = [
  'inputs',
  'serialization',
  'updated_at',
  'application_version',
  'application_name',
  'workflow_timeout_ms',
  'workflow_deadline_epoch_ms',
  'authenticated_user',
  'authenticated_roles',
  'assumed_role',
  'attributes',
  'priority',
  'queue_partition_key',
];

function debounceStatement(d: Dialect): Statement {
  const workflows = d.table('workflow_status');
  const names = Object.keys(debouncedColumns);
  const types = Object.values(debouncedColumns);
  const sql: Record<string, string> = { text: 'text', int: 'int', bigint: 'bigint', bool: 'boolean', json: 'jsonb' };
  const given = names.map((name, i) => {
    const type = d.name === 'sqlite' && types[i] === 'json' ? 'text' : sql[types[i] ?? 'text'];
    return `cast($${i + 1} as ${type}) as "${name}"`;
  });
  const sooner = (a: string, b: string): string =>
    `case when ${a} is null then ${b} when ${b} is null then ${a} when ${a} < ${b} then ${a} else ${b} end`;
  const deadline = sooner(
    'w.debounce_deadline_epoch_ms',
    '(w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))',
  );
  const ownDeadline = 'r."createdAt" + r."debounceTimeoutMs"';
  return {
    name: 'workflows.debounce',
    text: [
      `${withSeq(d)} given as (select ${given.join(', ')}), ${heldQueues(d)}`,
      `insert into ${workflows} as w (${enqueueTargets}, is_debounced, debounce_deadline_epoch_ms)`,
      `select ${enqueueValues(d, sooner('r."delayUntil"', ownDeadline))},`,
      `${d.enqueueSeq.value('0')}, true, ${ownDeadline} from given r where ${queueExists}`,
      'on conflict (queue_name, deduplication_id) where deduplication_id is not null do update set',
      // The last call also decides the version and the app: perhaps no process runs the version of an earlier caller
      // any more.
      `${replacedByLastCall.map((column) => `${column} = excluded.${column}`).join(', ')},`,
      // With a second caller, the workflow no longer belongs to the first caller alone. Cancelling the first caller
      // must not cancel this workflow, so it becomes detached.
      'detached = (w.detached or w.parent_workflow_id is distinct from excluded.parent_workflow_id),',
      `debounce_deadline_epoch_ms = ${deadline},`,
      `delay_until_epoch_ms = ${sooner('excluded.delay_until_epoch_ms', `(${deadline})`)}`,
      `where w.status = 'DELAYED' and w.is_debounced`,
      `and ${sameWorkflow('w', 'excluded.class_name', 'excluded.config_name', 'excluded.name')}`,
      'returning workflow_uuid, delay_until_epoch_ms',
    ].join(' '),
  };
}
