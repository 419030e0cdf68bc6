import { internalQueue } from '../../model/queues.js';
import type { Forks, NewFork } from '../contract/forks.js';
import type { BatchStatement, Columns, Database, Dialect } from '../database.js';
import { storedInputs } from './payloads.js';
import { partitionKey } from './queue-rows.js';

/**
 * Forks workflows: one statement copies a workflow, and the records of its first steps, under another ID.
 *
 * On Postgres one statement reads one snapshot. The copy of a running workflow therefore shows a single moment: a step
 * is copied with all its effects or not at all. On SQLite the copy is made in one transaction.
 */
export class SqlForks implements Forks {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = forkStatements(database.dialect);
  }

  async create(fork: NewFork): Promise<boolean> {
    return (await this.database.batch(this.sql.create, [], [fork])).length > 0;
  }

  async stepCount(workflowId: string): Promise<number> {
    const [row] = await this.database.query(this.sql.stepCount, [workflowId]);
    return Number(row?.count ?? 0);
  }
}

const columns: Columns<NewFork> = {
  workflowId: 'text',
  forkedFrom: 'text',
  fromStep: 'int',
  createdAt: 'bigint',
  queueName: 'text',
  partition: 'text',
  priority: 'int',
  version: 'text',
  appName: 'text',
  timeoutMs: 'bigint',
  untimed: 'bool',
  delayUntil: 'bigint',
  children: 'text',
};

const copied = [
  ...['name', 'class_name', 'config_name', 'serialization', 'request', 'application_id'],
  ...['authenticated_user', 'authenticated_roles', 'assumed_role', 'attributes'],
];

/**
 * Returns an expression for the number of steps, from the highest step number. Numbers start at 0. A lower number may
 * be missing, because its step was still running.
 */
const stepsOf = (d: Dialect, workflowId: string): string =>
  `coalesce((select max(function_id) + 1 from ${d.table('operation_outputs')} where workflow_uuid = ${workflowId}), 0)`;

function forkStatements(d: Dialect) {
  const queueExists = `(r."queueName" = '${internalQueue}' or r."queueName" in (${d.holdQueues('select r."queueName"')}))`;
  const before = d.locksRows ? `with ${d.enqueueSeq.before}, ${lockedOriginals(d)} ` : '';
  const main = [
    `${before}insert into ${d.table('workflow_status')} (workflow_uuid, status, inputs, ${copied.join(', ')}, forked_from,`,
    'application_version, application_name, recovery_attempts, created_at, updated_at, workflow_timeout_ms,',
    'queue_name, priority, queue_partition_key, delay_until_epoch_ms, incarnation, seed, began_at, enqueue_seq)',
    `select r."workflowId", case when r."delayUntil" is null then 'ENQUEUED' else 'DELAYED' end,`,
    `${storedInputs(d, 'o.inputs', 'o.workflow_uuid')}, ${copied.map((column) => `o.${column}`).join(', ')}, o.workflow_uuid,`,
    'coalesce(r.version, o.application_version), coalesce(r."appName", o.application_name), 0, r."createdAt", r."createdAt",',
    'case when r.untimed then null else coalesce(r."timeoutMs", o.workflow_timeout_ms) end,',
    `r."queueName", r.priority, ${partitionKey(d, 'r.partition', 'r."queueName"')}, r."delayUntil", ${d.token},`,
    // Replayed steps need the start time and the random seed of the original. A fork from step 0 replays nothing and
    // gets its own.
    'case when r."fromStep" > 0 then coalesce(o.seed, o.workflow_uuid) end,',
    'case when r."fromStep" > 0 then coalesce(o.began_at, o.created_at) end,',
    `${d.enqueueSeq.value('0')} from ${d.rows('r', columns, 1)}`,
    `join ${d.table('workflow_status')} o on o.workflow_uuid = r."forkedFrom"`,
    `where r."fromStep" <= ${stepsOf(d, 'r."forkedFrom"')} and ${queueExists}`,
    d.locksRows ? 'and exists (select 1 from held where held.id = o.workflow_uuid)' : '',
    'on conflict (workflow_uuid) do nothing returning workflow_uuid, true as landed',
  ].join(' ');
  const create: BatchStatement<NewFork> = {
    name: 'workflows.fork',
    columns,
    ...d.together(main, [
      copySteps(d),
      copyEventHistory(d),
      copyEvents(d),
      copyStreams(d),
      `update ${d.table('workflow_status')} set was_forked_from = true where not was_forked_from and workflow_uuid in ` +
        `(select r."forkedFrom" from ${createdFork(d)})`,
    ]),
  };
  return {
    create,
    stepCount: { name: 'workflows.step-count', text: `select ${stepsOf(d, '$1')} as count` },
  };
}

/**
 * Locks the original, and the children that will be in the history of the fork. The statement waits for a concurrent
 * deletion of these workflows, and then does not find the deleted ones. A later deletion waits for the fork, and then
 * sees that the fork needs them.
 */
function lockedOriginals(d: Dialect): string {
  const workflows = d.table('workflow_status');
  const needed =
    `select r."forkedFrom" from ${d.rows('r', columns, 1)} union select coalesce(${replacementChild(d)}, c.child_workflow_id) ` +
    `from ${d.rows('r', columns, 1)} join ${d.table('operation_outputs')} c on c.workflow_uuid = r."forkedFrom" ` +
    'and c.function_id < r."fromStep" where c.child_workflow_id is not null';
  return (
    `held as materialized (select workflow_uuid as id from ${workflows} where workflow_uuid in (${needed}) ` +
    `order by ${d.lockOrder('workflow_uuid')} ${d.forUpdate})`
  );
}

/** The row of the fork, if the fork was created. */
const createdFork = (d: Dialect): string => `${d.rows('r', columns, 1)} where ${d.landed}`;

/** The fork joined to `c`: the rows of a table that belong to the copied steps. */
const copiedRows = (d: Dialect, table: string): string =>
  `(select r.* from ${createdFork(d)}) r join ${d.table(table)} c on c.workflow_uuid = r."forkedFrom" ` +
  'and c.function_id < r."fromStep"';

function copySteps(d: Dialect): string {
  const same = [
    ...['function_id', 'function_name', 'output', 'error', 'serialization', 'started_at_epoch_ms'],
    ...['completed_at_epoch_ms', 'completion_seq', 'requested_after', 'application_name'],
  ];
  return [
    `insert into ${d.table('operation_outputs')} (workflow_uuid, ${same.join(', ')}, child_workflow_id)`,
    `select r."workflowId", ${same.map((column) => `c.${column}`).join(', ')},`,
    `coalesce(${replacementChild(d)}, c.child_workflow_id) from ${copiedRows(d, 'operation_outputs')}`,
  ].join(' ');
}

/** The workflow to which the copy of step `c` refers instead of the original child, if one was given. */
const replacementChild = (d: Dialect): string =>
  `(select x.new from ${d.jsonRows('x', { old: 'text', new: 'text' }, 'r.children')} where x.old = c.child_workflow_id)`;

function copyEventHistory(d: Dialect): string {
  return [
    `insert into ${d.table('workflow_events_history')} (workflow_uuid, function_id, key, value, serialization)`,
    'select r."workflowId", c.function_id, c.key, c.value, c.serialization',
    `from ${copiedRows(d, 'workflow_events_history')}`,
  ].join(' ');
}

/** Copies each event with its last value among the copied steps. Later steps may have changed the value since. */
function copyEvents(d: Dialect): string {
  return [
    `insert into ${d.table('workflow_events')} (workflow_uuid, key, value, serialization)`,
    'select last.id, last.key, last.value, last.serialization from (',
    'select r."workflowId" as id, c.key, c.value, c.serialization, row_number() over (partition by c.key',
    'order by coalesce(s.completion_seq, -1) desc, c.function_id desc) as nth',
    `from ${copiedRows(d, 'workflow_events_history')} left join ${d.table('operation_outputs')} s`,
    'on s.workflow_uuid = c.workflow_uuid and s.function_id = c.function_id) last where last.nth = 1',
  ].join(' ');
}

/**
 * Copies streams with new offsets. The original offsets would have gaps where later steps wrote values in between, and
 * a reader of DBOS would wait at a gap forever.
 */
function copyStreams(d: Dialect): string {
  return [
    `insert into ${d.table('streams')} (workflow_uuid, key, value, "offset", function_id, serialization)`,
    'select r."workflowId", c.key, c.value, row_number() over (partition by c.key order by c."offset") - 1,',
    `c.function_id, c.serialization from ${copiedRows(d, 'streams')}`,
  ].join(' ');
}
