import type { WorkflowStatus } from '../../model/status.js';
import type { WorkflowKey } from '../../model/workflow-key.js';
import type {
  CancelledWorkflow,
  ClaimedRecord,
  Ending,
  NewStep,
  StepRecord,
  WorkflowRecord,
} from '../contract/storage.js';
import type { Columns, Dialect, Row } from '../database.js';
import { storedInputs, storedOutcome } from './payloads.js';
import { afterColumns } from './predecessors.js';

/** Translates between the snake_case columns of the tables and the records of the contract. */
const plainColumns = [
  'workflow_uuid',
  'status',
  'name',
  'class_name',
  'config_name',
  'serialization',
  'executor_id',
  'owner_xid',
  'application_version',
  'application_name',
  'recovery_attempts',
  'created_at',
  'updated_at',
  'started_at_epoch_ms',
  'completed_at',
  'workflow_timeout_ms',
  'workflow_deadline_epoch_ms',
  'parent_workflow_id',
  'queue_name',
  'priority',
  'deduplication_id',
  'queue_partition_key',
  'delay_until_epoch_ms',
  'schedule_name',
  'authenticated_user',
  'authenticated_roles',
  'assumed_role',
  'attributes',
  'status_reason',
  'forked_from',
  'was_forked_from',
  'seed',
  'began_at',
  'incarnation',
  'retries',
  'under_way',
].join(', ');

export function workflowColumns(d: Dialect): string {
  const outcome = `${storedOutcome(d, 'output')} as output, ${storedOutcome(d, 'error')} as error`;
  return `${plainColumns}, ${storedInputs(d)} as inputs, ${outcome}`;
}

/** Some clients of DBOS write an empty text if a workflow has no class. */
export function toKey(row: Row): WorkflowKey {
  return {
    name: (row.name as string | null) ?? '',
    className: (row.class_name as string | null) || null,
    configName: (row.config_name as string | null) || null,
  };
}

export function toWorkflow(row: Row): WorkflowRecord {
  return {
    workflowId: row.workflow_uuid as string,
    status: row.status as WorkflowStatus,
    ...toKey(row),
    inputs: row.inputs as string | null,
    output: row.output as string | null,
    error: row.error as string | null,
    serialization: row.serialization as string | null,
    executorId: row.executor_id as string | null,
    owner: row.owner_xid as string | null,
    version: row.application_version as string | null,
    appName: row.application_name as string | null,
    attempts: Number(row.recovery_attempts ?? 0),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
    startedAt: numberOrNull(row.started_at_epoch_ms),
    completedAt: numberOrNull(row.completed_at),
    timeoutMs: numberOrNull(row.workflow_timeout_ms),
    deadlineAt: numberOrNull(row.workflow_deadline_epoch_ms),
    parentWorkflowId: row.parent_workflow_id as string | null,
    queueName: row.queue_name as string | null,
    priority: Number(row.priority ?? 0),
    dedupId: row.deduplication_id as string | null,
    partition: row.queue_partition_key as string | null,
    delayUntil: numberOrNull(row.delay_until_epoch_ms),
    scheduleName: row.schedule_name as string | null,
    user: row.authenticated_user as string | null,
    roles: row.authenticated_roles as string | null,
    assumedRole: row.assumed_role as string | null,
    attributes: jsonText(row.attributes),
    statusReason: row.status_reason as string | null,
    forkedFrom: row.forked_from as string | null,
    wasForkedFrom: Boolean(row.was_forked_from),
    seed: row.seed as string | null,
    beganAt: numberOrNull(row.began_at),
    incarnation: row.incarnation as string | null,
    retries: row.retries as string | null,
    underWay: row.under_way as string | null,
    neverRan: false,
  };
}

/** The columns that are needed to run a workflow. A claim reads only these, because reads are much of its cost. */
const plainClaimedColumns = [
  'workflow_uuid',
  'status',
  'name',
  'class_name',
  'config_name',
  'serialization',
  'recovery_attempts',
  'created_at',
  'workflow_deadline_epoch_ms',
  'parent_workflow_id',
  'queue_partition_key',
  'authenticated_user',
  'authenticated_roles',
  'assumed_role',
  'attributes',
  'seed',
  'began_at',
  'incarnation',
  'retries',
].join(', ');

export function claimedColumns(d: Dialect): string {
  return `${plainClaimedColumns}, ${storedInputs(d)} as inputs`;
}

/** Lists each column by name. Combining the record from parts with spreads would take twice as long. */
export function toClaimed(row: Row, { owner, queueName }: Pick<ClaimedRecord, 'owner' | 'queueName'>): ClaimedRecord {
  return {
    workflowId: row.workflow_uuid as string,
    status: row.status as WorkflowStatus,
    name: (row.name as string | null) ?? '',
    className: (row.class_name as string | null) || null,
    configName: (row.config_name as string | null) || null,
    owner,
    inputs: row.inputs as string | null,
    serialization: row.serialization as string | null,
    attempts: Number(row.recovery_attempts ?? 0),
    createdAt: Number(row.created_at),
    deadlineAt: numberOrNull(row.workflow_deadline_epoch_ms),
    parentWorkflowId: row.parent_workflow_id as string | null,
    queueName,
    partition: row.queue_partition_key as string | null,
    user: row.authenticated_user as string | null,
    roles: row.authenticated_roles as string | null,
    assumedRole: row.assumed_role as string | null,
    attributes: jsonText(row.attributes),
    seed: row.seed as string | null,
    beganAt: numberOrNull(row.began_at),
    incarnation: row.incarnation as string | null,
    retries: row.retries as string | null,
    neverRan: Boolean(row.never_ran),
  };
}

export function toEnding(row: Row): Ending {
  return {
    workflowId: row.workflow_uuid as string,
    status: row.status as WorkflowStatus,
    output: row.output as string | null,
    error: row.error as string | null,
    serialization: row.serialization as string | null,
    statusReason: row.status_reason as string | null,
  };
}

export function toCancelled(row: Row): CancelledWorkflow {
  return {
    workflowId: row.workflow_uuid as string,
    owner: row.owner_xid as string | null,
    reason: row.status_reason as string | null,
    queueName: row.queue_name as string | null,
  };
}

export const stepColumns = [
  'workflow_uuid',
  'function_id',
  'function_name',
  'output',
  'error',
  'serialization',
  'child_workflow_id',
  'started_at_epoch_ms',
  'completed_at_epoch_ms',
  'completion_seq',
  'requested_after',
].join(', ');

/** The columns of a row that records a step. */
export const newStepColumns: Columns<NewStep> = {
  workflowId: 'text',
  owner: 'text',
  stepNumber: 'int',
  name: 'text',
  output: 'text',
  error: 'text',
  serialization: 'text',
  childWorkflowId: 'text',
  startedAt: 'bigint',
  completedAt: 'bigint',
  completionSeq: 'int',
  requestedAfter: 'int',
  ...afterColumns,
};

export function toStep(row: Row): StepRecord {
  return {
    workflowId: row.workflow_uuid as string,
    stepNumber: Number(row.function_id),
    name: row.function_name as string,
    output: row.output as string | null,
    error: row.error as string | null,
    serialization: row.serialization as string | null,
    childWorkflowId: row.child_workflow_id as string | null,
    startedAt: numberOrNull(row.started_at_epoch_ms),
    completedAt: numberOrNull(row.completed_at_epoch_ms),
    completionSeq: numberOrNull(row.completion_seq),
    requestedAfter: numberOrNull(row.requested_after),
  };
}

function numberOrNull(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}

/** The Postgres driver returns JSONB parsed; SQLite returns the text. */
function jsonText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}
