import { internalQueue } from '../../model/queues.js';
import type { DedupKey, EnqueuedWorkflow } from '../contract/storage.js';
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

export const enqueuedColumns: Columns<Positioned> = {
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

/** The columns that an enqueue writes, in the order of {@link enqueueValues}. The last one is the number of the row. */
export const enqueueTargets = [
  'workflow_uuid, status, name, class_name, config_name, inputs, serialization, application_version, application_name,',
  'recovery_attempts, created_at, updated_at, workflow_timeout_ms, workflow_deadline_epoch_ms, authenticated_user,',
  'authenticated_roles, assumed_role, attributes,',
  'queue_name, priority, deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name,',
  'parent_workflow_id, detached, incarnation, enqueue_seq',
].join(' ');

/** The values of a row `r`, except its number. */
export const enqueueValues = (d: Dialect, delayUntil = 'r."delayUntil"'): string =>
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
  const before = withSeq(d);
  // SQLite executes the statement once per row, in the given order. Each execution reads the number of the row before.
  const seq = d.enqueueSeq.value(d.locksRows ? 'r.position' : '0');
  const batch = (name: string, fence: string): BatchStatement<Positioned> => ({
    name,
    columns: enqueuedColumns,
    text:
      `${before} given as materialized (select * from ${d.rows('g', enqueuedColumns, 1)}), ${heldQueues(d)} ` +
      `insert into ${workflows} (${enqueueTargets}) select ${enqueueValues(d)}, ${seq} ` +
      `from given r ${fence} and ${queueExists} on conflict do nothing returning workflow_uuid`,
  });
  return {
    many: batch('workflows.enqueue', 'where true'),
    children: batch(
      'workflows.enqueueChild',
      `${d.fence('r."parentWorkflowId"', 'r."parentOwner"')} where ${predecessorsOnRecord(d, 'r."parentWorkflowId"')}`,
    ),
    all: enqueueAll(d, before),
  };
}

/** Begins a statement that numbers the rows that it inserts. */
export const withSeq = (d: Dialect): string => (d.enqueueSeq.before === '' ? 'with' : `with ${d.enqueueSeq.before},`);

/**
 * Selects the existing queues among those that the rows of `given` name. The queues are locked until commit, so that
 * no other process deletes a queue while work is put on it.
 */
export const heldQueues = (d: Dialect): string =>
  `held as materialized (${d.holdQueues('select distinct g."queueName" from given g')})`;

export const queueExists = `(r."queueName" = '${internalQueue}' or r."queueName" in (select name from held))`;

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
      `${before} given as materialized (select * from ${d.jsonRows('g', enqueuedColumns, '$1')}), ${heldQueues(d)}`,
      `insert into ${workflows} (${enqueueTargets}) select ${enqueueValues(d)}, ${d.enqueueSeq.value('r.position')} from given r`,
      `where not ${taken} and not exists (select 1 from given r where not ${queueExists})`,
      `order by ${d.lockOrder('r."workflowId"')}`,
      'on conflict (workflow_uuid) do nothing returning workflow_uuid',
    ].join(' '),
  };
}

/** Returns a condition: the row belongs to this workflow. An empty class counts as no class. */
export const sameWorkflow = (row: string, className: string, configName: string, name: string): string =>
  `(${row}.name = ${name} and coalesce(${row}.class_name, '') = coalesce(${className}, '') ` +
  `and coalesce(${row}.config_name, '') = coalesce(${configName}, ''))`;

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
