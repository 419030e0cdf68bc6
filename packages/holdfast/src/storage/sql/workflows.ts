import { activeStatuses, resumableStatuses } from '../../model/status.js';
import { afterChange } from '../contract/failure.js';
import type {
  After,
  CancelledWorkflow,
  ClaimedRecord,
  Ending,
  FinishedWorkflow,
  NewChild,
  NewWorkflow,
  OwnedWorkflow,
  WorkflowFilter,
  WorkflowRecord,
  Workflows,
  Writer,
} from '../contract/storage.js';
import type { BatchStatement, Columns, Database, Dialect } from '../database.js';
import { inLockOrder } from './lock-order.js';
import { storedOutcome } from './payloads.js';
import { afterColumns, predecessorsOnRecord } from './predecessors.js';
import { partitionKey } from './queue-rows.js';
import { claimedColumns, toCancelled, toClaimed, toEnding, toWorkflow, workflowColumns } from './rows.js';
import { listQuery } from './workflow-list.js';

/** The table `workflow_status`: start, finish, read, cancel and resume workflows. Takeovers are in takeovers.ts. */
export class SqlWorkflows implements Workflows {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = workflowStatements(database.dialect);
  }

  async insertMany(writer: Writer, rows: readonly NewWorkflow[]): Promise<Set<string>> {
    const inOrder = inLockOrder(this.database.dialect, rows, (row) => row.workflowId);
    const inserted = await this.database.batch(this.sql.insert, [writer.executorId, writer.appName], inOrder);
    return new Set(inserted.map((row) => row.owner_xid as string));
  }

  async insertChildren(writer: Writer, rows: readonly NewChild[]): Promise<Set<string>> {
    const inOrder = inLockOrder(this.database.dialect, rows, (row) => row.parentWorkflowId);
    const inserted = await this.database.batch(this.sql.insertChild, [writer.executorId, writer.appName], inOrder);
    return new Set(inserted.map((row) => row.owner_xid as string));
  }

  async finishMany(rows: readonly FinishedWorkflow[]): Promise<Set<string>> {
    const inOrder = inLockOrder(this.database.dialect, rows, (row) => row.workflowId);
    return ids(await this.database.batch(this.sql.finish, [], inOrder));
  }

  async get(workflowIds: readonly string[]): Promise<WorkflowRecord[]> {
    const rows = await this.database.query(this.sql.get, [this.database.dialect.list(workflowIds)]);
    return rows.map(toWorkflow);
  }

  async list(filter: WorkflowFilter): Promise<WorkflowRecord[]> {
    const { text, params } = listQuery(this.database.dialect, filter);
    const rows = await this.database.query({ name: 'workflows.list', text, unprepared: true }, params);
    return rows.map(toWorkflow);
  }

  async endings(workflowIds: readonly string[]): Promise<Ending[]> {
    const rows = await this.database.query(this.sql.endings, [this.database.dialect.list(workflowIds)]);
    return rows.map(toEnding);
  }

  async claimedUnder(params: { owner: string; executorId: string; version: string }): Promise<WorkflowRecord[]> {
    const { owner, executorId, version } = params;
    return (await this.database.query(this.sql.claimedUnder, [owner, executorId, version])).map(toWorkflow);
  }

  async cancel(
    params: Parameters<Workflows['cancel']>[0],
    onChange?: (part: readonly CancelledWorkflow[]) => void,
  ): Promise<CancelledWorkflow[]> {
    const changed: CancelledWorkflow[] = [];
    const list = this.database.dialect.list(params.workflowIds);
    const cancelTree = () => this.database.query(this.sql.cancel, [list, params.reason, params.now]);
    // A parent may commit the start of a child after the statement took its snapshot, so the statement misses the
    // child. The parent is CANCELLED afterwards and can start no more children. Repeating the statement finds the
    // child.
    for (;;) {
      const rows = await afterChange(cancelTree, () => changed.length > 0);
      if (rows.length === 0) return changed;
      const part = rows.map(toCancelled);
      changed.push(...part);
      onChange?.(part);
    }
  }

  async expired(params: { now: number; limit: number }): Promise<string[]> {
    return [...ids(await this.database.query(this.sql.expired, [params.now, params.limit]))];
  }

  async cancelledSince(since: number): Promise<CancelledWorkflow[]> {
    return (await this.database.query(this.sql.cancelledSince, [since])).map(toCancelled);
  }

  async resume({ workflowIds, queueName, now, moveTo }: Parameters<Workflows['resume']>[0]) {
    const list = this.database.dialect.list(workflowIds);
    const params = [list, queueName, now, moveTo?.queueName ?? null, moveTo?.partition ?? null];
    const rows = await this.database.query(this.sql.resume, params);
    return rows.map((row) => ({ workflowId: row.workflow_uuid as string, queueName: row.queue_name as string }));
  }

  async owned(workflows: readonly OwnedWorkflow[]): Promise<ClaimedRecord[]> {
    const owners = new Map(workflows.map(({ workflowId, owner }) => [workflowId, owner]));
    const rows = await this.database.query(this.sql.pending, [this.database.dialect.list([...owners.keys()])]);
    return rows
      .map((row) => toClaimed(row, { owner: row.owner_xid as string, queueName: row.queue_name as string | null }))
      .filter(({ workflowId, owner }) => owners.get(workflowId) === owner);
  }

  async release(params: Parameters<Workflows['release']>[0]): Promise<Set<string>> {
    const inOrder = inLockOrder(this.database.dialect, params.owned, (each) => each.workflowId);
    const statement = params.passOverLocked ? this.sql.releaseUnlocked : this.sql.release;
    return ids(await this.database.batch(statement, [params.queueName, params.now], inOrder));
  }

  async markSuspended(owned: readonly (OwnedWorkflow & After)[]): Promise<Set<string>> {
    const inOrder = inLockOrder(this.database.dialect, owned, (each) => each.workflowId);
    return ids(await this.database.batch(this.sql.markSuspended, [], inOrder));
  }

  async stall(params: {
    workflowId: string;
    owner: string;
    error: string;
    reason: string;
    now: number;
  }): Promise<boolean> {
    const { workflowId, owner, error, reason, now } = params;
    return (await this.database.query(this.sql.stall, [workflowId, owner, reason, now, error])).length > 0;
  }
}

function ids(rows: readonly Record<string, unknown>[]): Set<string> {
  return new Set(rows.map((row) => row.workflow_uuid as string));
}

const newWorkflowColumns: Columns<NewWorkflow> = {
  workflowId: 'text',
  name: 'text',
  className: 'text',
  configName: 'text',
  inputs: 'text',
  serialization: 'text',
  owner: 'text',
  version: 'text',
  createdAt: 'bigint',
  timeoutMs: 'bigint',
  deadlineAt: 'bigint',
  user: 'text',
  roles: 'text',
  assumedRole: 'text',
  attributes: 'json',
};

const newChildColumns: Columns<NewChild> = {
  ...newWorkflowColumns,
  parentWorkflowId: 'text',
  parentOwner: 'text',
  detached: 'bool',
  ...afterColumns,
};

const finishedColumns: Columns<FinishedWorkflow> = {
  workflowId: 'text',
  owner: 'text',
  status: 'text',
  output: 'text',
  error: 'text',
  underWay: 'text',
  completedAt: 'bigint',
  ...afterColumns,
};

const ownedColumns: Columns<OwnedWorkflow> = { workflowId: 'text', owner: 'text' };

const suspendedColumns: Columns<OwnedWorkflow & After> = { ...ownedColumns, ...afterColumns };

function list(statuses: readonly string[]): string {
  return statuses.map((status) => `'${status}'`).join(', ');
}

function workflowStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  const backOnQueue = [
    `update ${workflows} as w set status = 'ENQUEUED', queue_name = coalesce(queue_name, $1), updated_at = $2,`,
    'owner_xid = null, executor_id = null, first_started_at = coalesce(first_started_at, started_at_epoch_ms),',
    'recovery_attempts = case when recovery_attempts > 0 then recovery_attempts - 1 else 0 end',
    `from ${d.rows('r', ownedColumns, 3)}`,
    `where w.workflow_uuid = r."workflowId" and w.owner_xid = r.owner and ${d.stillPending('w')}`,
  ];
  return {
    insert: insertStatement(d, 'workflows.insert', newWorkflowColumns, {
      parent: 'null',
      detached: 'false',
      join: 'where true',
    }),
    insertChild: insertStatement(d, 'workflows.insertChild', newChildColumns, {
      parent: 'r."parentWorkflowId"',
      detached: 'r.detached',
      join: [
        d.fence('r."parentWorkflowId"', 'r."parentOwner"'),
        `where ${predecessorsOnRecord(d, 'r."parentWorkflowId"')}`,
      ].join(' '),
    }),
    finish: batch('workflows.finish', finishedColumns, [
      `update ${workflows} as w set status = r.status, output = r.output, error = r.error, under_way = r."underWay",`,
      'completed_at = r."completedAt", updated_at = r."completedAt", deduplication_id = null',
      `from ${d.rows('r', finishedColumns, 1)}`,
      `where w.workflow_uuid = r."workflowId" and w.owner_xid = r.owner and ${d.stillPending('w')}`,
      `and ${predecessorsOnRecord(d)} returning workflow_uuid`,
    ]),
    ...readStatements(d),
    release: batch('workflows.release', ownedColumns, [...backOnQueue, 'returning workflow_uuid']),
    releaseUnlocked: batch('workflows.release-unlocked', ownedColumns, [
      ...backOnQueue,
      `and w.workflow_uuid in (select l.workflow_uuid from ${workflows} l`,
      `where l.workflow_uuid = r."workflowId" ${d.forUpdateSkipLocked}) returning workflow_uuid`,
    ]),
    markSuspended: batch('workflows.markSuspended', suspendedColumns, [
      `update ${workflows} as w set resting_owner = r.owner from ${d.rows('r', suspendedColumns, 1)}`,
      `where w.workflow_uuid = r."workflowId" and w.owner_xid = r.owner and ${d.stillPending('w')}`,
      `and ${predecessorsOnRecord(d)} returning workflow_uuid`,
    ]),
    stall: {
      name: 'workflows.stall',
      text:
        `update ${workflows} set status = 'STALLED', status_reason = $3, error = $5, updated_at = $4, completed_at = $4, ` +
        'deduplication_id = null, ' +
        // The count stays at least 1, for the first start: the replay may follow a suspension, which is not an
        // attempt.
        'recovery_attempts = case when recovery_attempts > 1 then recovery_attempts - 1 else recovery_attempts end ' +
        `where workflow_uuid = $1 and owner_xid = $2 and status = 'PENDING' returning workflow_uuid`,
    },
    ...treeStatements(d),
  };
}

function readStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  return {
    // The condition on the executor is there for its index. There is no index on the owner.
    claimedUnder: {
      name: 'workflows.claimedUnder',
      shared: true as const,
      text:
        `select ${workflowColumns(d)} from ${workflows} where status = 'PENDING' and executor_id = $2 ` +
        'and application_version = $3 and owner_xid = $1',
    },
    get: {
      name: 'workflows.get',
      text: `select ${workflowColumns(d)} from ${workflows} where ${d.anyOf('workflow_uuid', '$1')}`,
    },
    endings: {
      name: 'workflows.endings',
      shared: true as const,
      text:
        'select workflow_uuid, status, serialization, status_reason, ' +
        `case when status in (${list(activeStatuses)}) then null else ${storedOutcome(d, 'output')} end as output, ` +
        `case when status in (${list(activeStatuses)}) then null else ${storedOutcome(d, 'error')} end as error ` +
        `from ${workflows} where ${d.anyOf('workflow_uuid', '$1')}`,
    },
    pending: {
      name: 'workflows.pending',
      shared: true as const,
      text:
        `select ${claimedColumns(d)}, owner_xid, queue_name from ${workflows} ` +
        `where ${d.anyOf('workflow_uuid', '$1')} and status = 'PENDING'`,
    },
    expired: {
      name: 'workflows.expired',
      shared: true as const,
      text:
        `select workflow_uuid from ${workflows} where status in ('ENQUEUED', 'PENDING', 'DELAYED') ` +
        'and workflow_deadline_epoch_ms is not null and workflow_deadline_epoch_ms <= $1 limit $2',
    },
    cancelledSince: {
      name: 'workflows.cancelledSince',
      shared: true as const,
      text:
        `select workflow_uuid, owner_xid, status_reason, queue_name from ${workflows} ` +
        `where completed_at >= $1 and status = 'CANCELLED'`,
    },
  };
}

function insertStatement<T extends NewWorkflow>(
  d: Dialect,
  name: string,
  columns: Columns<T>,
  child: { parent: string; detached: string; join: string },
): BatchStatement<T> {
  return batch(name, columns, [
    `insert into ${d.table('workflow_status')} (workflow_uuid, status, name, class_name, config_name, inputs,`,
    'serialization, executor_id, owner_xid, application_version, application_name, recovery_attempts, created_at, updated_at,',
    'started_at_epoch_ms, workflow_timeout_ms, workflow_deadline_epoch_ms, authenticated_user, authenticated_roles,',
    'assumed_role, attributes, parent_workflow_id, detached, enqueue_seq, incarnation)',
    `select r."workflowId", 'PENDING', r.name, r."className", r."configName", r.inputs, r.serialization, $1, r.owner,`,
    'r.version, $2, 1, r."createdAt", r."createdAt", r."createdAt", r."timeoutMs", r."deadlineAt", r."user", r.roles,',
    'r."assumedRole", r.attributes,',
    `${child.parent}, ${child.detached}, null, r.owner from ${d.rows('r', columns, 3)} ${child.join}`,
    'on conflict (workflow_uuid) do nothing returning owner_xid',
  ]);
}

/** Statements that change a workflow together with its descendants. */
function treeStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  const steps = d.table('operation_outputs');
  const given = `select workflow_uuid from ${workflows} where ${d.anyOf('workflow_uuid', '$1')}`;
  const target = 'cast($4 as text)';
  // Only the given workflows move to the target queue, not their children, and only if the queue still exists.
  const queues = d.holdQueues();
  const moves = `${d.anyOf('workflow_uuid', '$1')} and ${target} in (${queues})`;
  return {
    cancel: {
      name: 'workflows.cancel',
      text: [
        `with recursive tree(id) as (${d.few(given)}`,
        `union select c.workflow_uuid from tree t ${d.children('t.id')} where not c.detached),`,
        `picked as materialized (select workflow_uuid from ${workflows} where workflow_uuid in (select id from tree)`,
        `and status in (${list(activeStatuses)}) order by ${d.lockOrder('workflow_uuid')} ${d.forUpdate})`,
        `update ${workflows} set status = 'CANCELLED', status_reason = $2, completed_at = $3, updated_at = $3,`,
        'deduplication_id = null where workflow_uuid in (select workflow_uuid from picked)',
        `and status in (${list(activeStatuses)}) returning workflow_uuid, owner_xid, status_reason, queue_name`,
      ].join(' '),
    },
    // A cancelled child is resumed with its parent, unless the history of the parent contains the cancellation as the
    // result of the child. In that case the parent no longer waits for the child.
    resume: {
      name: 'workflows.resume',
      text: [
        `with recursive tree(id) as (${d.few(`${given} and status in (${list(resumableStatuses)})`)}`,
        `union select c.workflow_uuid from tree t ${d.children('t.id')}`,
        `where not c.detached and c.status = 'CANCELLED' and not exists (select 1 from ${steps} o`,
        `where o.workflow_uuid = t.id and o.child_workflow_id = c.workflow_uuid and o.function_name = 'DBOS.getResult'))`,
        `update ${workflows} set status = 'ENQUEUED', updated_at = $3, owner_xid = null,`,
        `queue_name = case when ${moves} then ${target} when queue_name in (${queues}) then queue_name else $2 end,`,
        `queue_partition_key = case when ${moves} then ${partitionKey(d, 'cast($5 as text)', target)}`,
        `else ${partitionKey(d, 'queue_partition_key', 'queue_name')} end,`,
        'executor_id = null, recovery_attempts = 0, first_started_at = null, resting_owner = null, workflow_deadline_epoch_ms = null,',
        'completed_at = null, error = null, status_reason = null where workflow_uuid in (select id from tree)',
        `and status in (${list(resumableStatuses)}) returning workflow_uuid, queue_name`,
      ].join(' '),
    },
  };
}

function batch<T extends object>(name: string, columns: Columns<T>, text: readonly string[]): BatchStatement<T> {
  return { name, columns, text: text.join(' ') };
}
