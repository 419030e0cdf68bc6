import { internalQueue } from '../../model/queues.js';
import type { DebouncedWorkflow, DedupKey, EnqueuedWorkflow } from '../contract/storage.js';
import type { BatchStatement, Columns, Database, Dialect, Statement } from '../database.js';
import { inLockOrder } from './lock-order.js';
import { afterColumns, predecessorsOnRecord } from './predecessors.js';
import { partitionKey } from './queue-rows.js';
import { toKey } from './rows.js';

/**
 * Puts workflows on queues.
 *
 * Order: each row gets a number. The numbers grow from statement to statement and, within a statement, in the order
 * of the given rows. A workflow whose enqueue was acknowledged therefore comes before every workflow that is enqueued
 * later, independent of clocks.
 */
export class Enqueue {
  private readonly sql;
  private readonly waiting;

  constructor(private readonly database: Database) {
    this.sql = enqueueStatements(database.dialect);
    this.waiting = waitingStatements(database.dialect);
  }

  async many(rows: readonly EnqueuedWorkflow[]): Promise<Set<string>> {
    const positioned = rows.map((row, position) => ({ ...row, position }));
    const { dialect } = this.database;
    const plain = positioned.filter((row) => row.parentWorkflowId === null);
    const children = positioned.filter((row) => row.parentWorkflowId !== null);
    const inserted = await this.database.batch(this.sql.many, [], inLockOrder(dialect, plain, byId));
    const others = await this.database.batch(this.sql.children, [], inLockOrder(dialect, children, byParent));
    return new Set([...inserted, ...others].map((row) => row.workflow_uuid as string));
  }

  async all(rows: readonly EnqueuedWorkflow[]): Promise<Set<string>> {
    // Attributes are already JSON text. They are parsed here, because JSON.stringify below would encode them twice.
    const plain = (text: string | null): unknown => (text === null ? null : JSON.parse(text));
    const positioned = rows.map((row, position) => ({ ...row, attributes: plain(row.attributes), position }));
    const inserted = await this.database.query(this.sql.all, [JSON.stringify(positioned)]);
    return new Set(inserted.map((row) => row.workflow_uuid as string));
  }

  async debounce(row: DebouncedWorkflow): Promise<{ workflowId: string; delayUntil: number } | undefined> {
    const columns = Object.keys(debouncedColumns) as (keyof DebouncedWorkflow)[];
    const values = columns.map((column) => row[column]);
    const [found] = await this.database.query(this.sql.debounce, values);
    return found && { workflowId: found.workflow_uuid as string, delayUntil: Number(found.delay_until_epoch_ms) };
  }

  async holders(keys: readonly DedupKey[]) {
    const rows = await this.database.query(this.waiting.holders, [JSON.stringify(keys)]);
    return rows.map((row) => ({
      queueName: row.queue_name as string,
      dedupId: row.deduplication_id as string,
      workflowId: row.workflow_uuid as string,
      ...toKey(row),
    }));
  }

  async promoteDue(params: { now: number; limit: number }): Promise<string[]> {
    const rows = await this.database.query(this.waiting.promoteDue, [params.now, params.limit]);
    return rows.map((row) => row.queue_name as string);
  }

  async setDelay(params: { workflowId: string; delayUntil: number; now: number }): Promise<string | undefined> {
    const { workflowId, delayUntil, now } = params;
    const [row] = await this.database.query(this.waiting.setDelay, [workflowId, delayUntil, now]);
    return row?.queue_name as string | undefined;
  }

  async setPriority(params: { workflowId: string; priority: number; now: number }): Promise<string | undefined> {
    const { workflowId, priority, now } = params;
    const [row] = await this.database.query(this.waiting.setPriority, [workflowId, priority, now]);
    return row?.queue_name as string | undefined;
  }
}

type Positioned = EnqueuedWorkflow & { readonly position: number };

const byId = (row: Positioned): string => row.workflowId;
const byParent = (row: Positioned): string => row.parentWorkflowId ?? '';

const columns: Columns<Positioned> = {
  workflowId: 'text',
  name: 'text',
  className: 'text',
  configName: 'text',
  inputs: 'text',
  serialization: 'text',
  version: 'text',
  appName: 'text',
  createdAt: 'bigint',
  timeoutMs: 'bigint',
  deadlineAt: 'bigint',
  user: 'text',
  roles: 'text',
  assumedRole: 'text',
  attributes: 'json',
  queueName: 'text',
  priority: 'int',
  dedupId: 'text',
  partition: 'text',
  delayUntil: 'bigint',
  scheduleName: 'text',
  parentWorkflowId: 'text',
  parentOwner: 'text',
  ...afterColumns,
  detached: 'bool',
  position: 'int',
};

const { parentOwner, position, afterStep, afterSeq, afterAlso, ...debouncedBase } = columns;
const debouncedColumns: Columns<DebouncedWorkflow> = { ...debouncedBase, debounceTimeoutMs: 'bigint' };

const targets = [
  'workflow_uuid, status, name, class_name, config_name, inputs, serialization, application_version, application_name,',
  'recovery_attempts, created_at, updated_at, workflow_timeout_ms, workflow_deadline_epoch_ms, authenticated_user,',
  'authenticated_roles, assumed_role, attributes,',
  'queue_name, priority, deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name,',
  'parent_workflow_id, detached, incarnation, enqueue_seq',
].join(' ');

const valuesOf = (d: Dialect, delayUntil = 'r."delayUntil"'): string =>
  [
    `r."workflowId", case when r."delayUntil" is null then 'ENQUEUED' else 'DELAYED' end, r.name, r."className",`,
    'r."configName", r.inputs,',
    'r.serialization, r.version, r."appName", 0, r."createdAt", r."createdAt", r."timeoutMs", r."deadlineAt", r."user",',
    'r.roles, r."assumedRole", r.attributes, r."queueName", r.priority, r."dedupId",',
    `${partitionKey(d, 'r.partition', 'r."queueName"')}, ${delayUntil}, r."scheduleName", r."parentWorkflowId", r.detached,`,
    d.token,
  ].join(' ');

function enqueueStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  const before = d.enqueueSeq.before === '' ? 'with' : `with ${d.enqueueSeq.before},`;
  // SQLite executes the statement once per row, in the given order. Each execution reads the number of the row before.
  const seq = d.enqueueSeq.value(d.locksRows ? 'r.position' : '0');
  const batch = (name: string, fence: string): BatchStatement<Positioned> => ({
    name,
    columns,
    text:
      `${before} given as materialized (select * from ${d.rows('g', columns, 1)}), ${heldQueues(d)} ` +
      `insert into ${workflows} (${targets}) select ${valuesOf(d)}, ${seq} ` +
      `from given r ${fence} and ${queueExists} on conflict do nothing returning workflow_uuid`,
  });
  return {
    many: batch('workflows.enqueue', 'where true'),
    children: batch(
      'workflows.enqueueChild',
      `${d.fence('r."parentWorkflowId"', 'r."parentOwner"')} where ${predecessorsOnRecord(d, 'r."parentWorkflowId"')}`,
    ),
    all: enqueueAll(d, before),
    debounce: debounce(d, before),
  };
}

/**
 * Selects the existing queues among those that the rows of `given` name. The queues are locked until commit, so that
 * no other process deletes a queue while work is put on it.
 */
const heldQueues = (d: Dialect): string =>
  `held as materialized (${d.holdQueues('select distinct g."queueName" from given g')})`;

const queueExists = `(r."queueName" = '${internalQueue}' or r."queueName" in (select name from held))`;

/**
 * Inserts all rows or none. A taken deduplication ID makes the statement fail. If an ID belongs to another workflow,
 * or a queue does not exist, the statement inserts nothing. A row that exists already stays unchanged.
 */
function enqueueAll(d: Dialect, before: string): Statement {
  const workflows = d.table('workflow_status');
  const taken =
    `exists (select 1 from ${workflows} w join given r on w.workflow_uuid = r."workflowId" ` +
    `where ${sameWorkflow('w', 'r."className"', 'r."configName"', 'r.name')} is not true)`;
  return {
    name: 'workflows.enqueueAll',
    pinned: true,
    text: [
      `${before} given as materialized (select * from ${d.jsonRows('g', columns, '$1')}), ${heldQueues(d)}`,
      `insert into ${workflows} (${targets}) select ${valuesOf(d)}, ${d.enqueueSeq.value('r.position')} from given r`,
      `where not ${taken} and not exists (select 1 from given r where not ${queueExists})`,
      `order by ${d.lockOrder('r."workflowId"')}`,
      'on conflict (workflow_uuid) do nothing returning workflow_uuid',
    ].join(' '),
  };
}

/** Returns a condition: the row belongs to this workflow. An empty class counts as no class. */
const sameWorkflow = (row: string, className: string, configName: string, name: string): string =>
  `(${row}.name = ${name} and coalesce(${row}.class_name, '') = coalesce(${className}, '') ` +
  `and coalesce(${row}.config_name, '') = coalesce(${configName}, ''))`;

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

/**
 * The first call under a key starts the wait. While the workflow is DELAYED, each later call replaces the input and
 * restarts the wait, up to the cap. Calls under one key wait for each other at the lock of the row, so the input of
 * the last call to commit remains. When the workflow becomes ENQUEUED, its key is free again: a call that comes after
 * this moment starts a new workflow.
 */
function debounce(d: Dialect, before: string): Statement {
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
      `${before} given as (select ${given.join(', ')}), ${heldQueues(d)}`,
      `insert into ${workflows} as w (${targets}, is_debounced, debounce_deadline_epoch_ms)`,
      `select ${valuesOf(d, sooner('r."delayUntil"', ownDeadline))},`,
      `${d.enqueueSeq.value('0')}, true, ${ownDeadline} from given r where ${queueExists}`,
      'on conflict (queue_name, deduplication_id) where deduplication_id is not null do update set',
      // The last call also decides about version and app: no process may run those of an earlier caller any more.
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

/** Statements about workflows that wait on a queue or for their delay. */
function waitingStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  return {
    holders: {
      name: 'workflows.holders',
      pinned: true as const,
      text: [
        'select w.queue_name, w.deduplication_id, w.workflow_uuid, w.name, w.class_name, w.config_name',
        `from ${d.jsonRows('k', { queueName: 'text', dedupId: 'text' }, '$1')} join ${workflows} w`,
        'on w.queue_name = k."queueName" and w.deduplication_id = k."dedupId" and w.deduplication_id is not null',
      ].join(' '),
    },
    // Frees the key of a debouncer. The input is final from here on, and the next call starts another workflow.
    promoteDue: {
      name: 'workflows.promoteDue',
      pinned: true as const,
      text: [
        `with due as materialized (select workflow_uuid as id from ${workflows} where status = 'DELAYED'`,
        `and delay_until_epoch_ms <= cast($1 as bigint) order by delay_until_epoch_ms limit $2 ${d.forUpdateSkipLocked})`,
        `update ${workflows} set status = 'ENQUEUED', updated_at = cast($1 as bigint),`,
        'deduplication_id = case when is_debounced then null else deduplication_id end',
        'where workflow_uuid in (select id from due) returning queue_name',
      ].join(' '),
    },
    setDelay: {
      name: 'workflows.setDelay',
      text:
        `update ${workflows} set delay_until_epoch_ms = $2, updated_at = $3 ` +
        `where workflow_uuid = $1 and status = 'DELAYED' returning queue_name`,
    },
    setPriority: {
      name: 'workflows.setPriority',
      text:
        `update ${workflows} set priority = $2, updated_at = $3 ` +
        `where workflow_uuid = $1 and status in ('ENQUEUED', 'DELAYED') returning queue_name`,
    },
  };
}
