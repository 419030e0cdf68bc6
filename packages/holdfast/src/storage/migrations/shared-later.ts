import { createEnqueueWorkflow, dropEnqueueWorkflow, dropTrigger, eventsTrigger, streamsTrigger } from './functions.js';
import type { Migration } from './migration.js';
import { forkedFrom, parentWorkflow } from './shared-first.js';

const inFlight = "status in ('ENQUEUED', 'PENDING')";
const named = (table: string): Required<Pick<Migration, 'change'>> => ({
  change: (d) => d.addColumns(table, 'application_name text'),
});

/**
 * Versions 24 to 108 of the shared layout. From version 100 on, all DBOS languages use the same numbers.
 *
 * A database that DBOS migrated to 22, 23 or 24 differs from a database that Holdfast migrated to the same number: DBOS
 * drops and creates the two partial indexes in four versions, 22 to 25. Therefore the versions 24 and 25 build both
 * indexes again, which leads to the same layout in every case.
 */
export const laterMigrations: readonly Migration[] = [
  { version: 24, name: 'partial index for forks, if still missing', indexes: [forkedFrom] },
  { version: 25, name: 'partial index for parents, if still missing', indexes: [parentWorkflow] },
  { version: 26, name: 'no index by executor', dropsIndexes: ['workflow_status_executor_id_index'] },
  {
    version: 27,
    name: 'deduplication by partial index',
    indexes: [
      {
        name: 'uq_workflow_status_dedup_id',
        table: 'workflow_status',
        on: 'queue_name, deduplication_id',
        where: 'deduplication_id is not null',
        unique: true,
      },
    ],
  },
  {
    version: 28,
    name: 'no deduplication by constraint',
    only: 'postgres',
    change: (d) => [
      `alter table ${d.table('workflow_status')} drop constraint if exists uq_workflow_status_queue_name_dedup_id`,
    ],
  },
  {
    version: 29,
    name: 'index for running workflows',
    indexes: [
      { name: 'idx_workflow_status_pending', table: 'workflow_status', on: 'created_at', where: "status = 'PENDING'" },
    ],
  },
  {
    version: 30,
    name: 'index for failed workflows',
    indexes: [
      {
        name: 'idx_workflow_status_failed',
        table: 'workflow_status',
        on: 'status, created_at',
        where: "status in ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')",
      },
    ],
  },
  { version: 31, name: 'no index by status', dropsIndexes: ['workflow_status_status_index'] },
  {
    version: 32,
    name: 'index for work in flight',
    indexes: [
      {
        name: 'idx_workflow_status_in_flight',
        table: 'workflow_status',
        on: 'queue_name, status, priority, created_at',
        where: inFlight,
      },
    ],
  },
  {
    version: 33,
    name: 'rate limits',
    change: (d) => d.addColumns('workflow_status', `rate_limited ${d.boolean} not null default ${d.false}`),
  },
  {
    version: 34,
    name: 'index for rate limits',
    indexes: [
      {
        name: 'idx_workflow_status_rate_limited',
        table: 'workflow_status',
        on: 'queue_name, started_at_epoch_ms',
        where: 'rate_limited = true',
      },
    ],
  },
  {
    version: 35,
    name: 'no index by queue and start',
    dropsIndexes: ['idx_workflow_status_queue_status_started'],
  },
  {
    version: 36,
    name: 'time of completion',
    change: (d) => d.addColumns('workflow_status', `completed_at ${d.bigint}`),
    indexes: [
      {
        name: 'idx_workflow_status_completed_at',
        table: 'workflow_status',
        on: 'completed_at',
        where: 'completed_at is not null',
      },
    ],
  },
  {
    version: 37,
    name: 'index for start times',
    indexes: [
      {
        name: 'idx_workflow_status_started_at',
        table: 'workflow_status',
        on: 'started_at_epoch_ms',
        where: 'started_at_epoch_ms is not null',
      },
    ],
  },
  {
    version: 38,
    name: 'enqueue_workflow with user, roles and delay',
    only: 'postgres',
    change: (d) => [dropEnqueueWorkflow(d, 14), createEnqueueWorkflow(d, 38)],
  },
  // Version 39 created a trigger on streams. Version 43 drops the trigger if DBOS created it.
  {
    version: 40,
    name: 'attributes',
    change: (d) => d.addColumns('workflow_status', `attributes ${d.json}`),
    indexes: [
      {
        name: 'idx_workflow_status_attributes',
        table: 'workflow_status',
        on: 'attributes',
        using: 'gin',
        only: 'postgres',
        where: 'attributes is not null',
      },
    ],
  },
  {
    version: 41,
    name: 'schedule of a workflow',
    change: (d) => d.addColumns('workflow_status', 'schedule_name text'),
    indexes: [
      {
        name: 'idx_workflow_status_schedule_name',
        table: 'workflow_status',
        on: 'schedule_name',
        where: 'schedule_name is not null',
      },
    ],
  },
  {
    version: 42,
    name: 'debouncing',
    change: (d) =>
      d.addColumns(
        'workflow_status',
        `debounce_deadline_epoch_ms ${d.bigint}`,
        `is_debounced ${d.boolean} not null default ${d.false}`,
      ),
  },
  { version: 43, name: 'no trigger on streams', only: 'postgres', change: (d) => dropTrigger(d, streamsTrigger) },
  { version: 44, name: 'no trigger on events', only: 'postgres', change: (d) => dropTrigger(d, eventsTrigger) },
  // Version 45 built the first form of this index, and version 47 drops that index.
  {
    version: 46,
    name: 'index for queue partitions',
    indexes: [
      {
        name: 'idx_workflow_status_partition_dequeue_v2',
        table: 'workflow_status',
        on: 'queue_name, status, queue_partition_key, priority, created_at, workflow_uuid',
        where: `${inFlight} and queue_partition_key is not null`,
      },
    ],
  },
  {
    version: 47,
    name: 'no earlier index for queue partitions',
    dropsIndexes: ['idx_workflow_status_partition_dequeue'],
  },
  { version: 100, name: 'application of a workflow', ...named('workflow_status') },
  { version: 101, name: 'application of a queue', ...named('queues') },
  { version: 102, name: 'application of a schedule', ...named('workflow_schedules') },
  { version: 103, name: 'application of a version', ...named('application_versions') },
  { version: 104, name: 'application of a step', ...named('operation_outputs') },
  {
    version: 105,
    name: 'enqueue_workflow with application',
    only: 'postgres',
    change: (d) => [dropEnqueueWorkflow(d, 38), createEnqueueWorkflow(d, 105)],
  },
  // The index is built inside the transaction: the table has only one row per deployment, and from version 100 on no
  // migration may be left partly applied.
  {
    version: 106,
    name: 'one version name per application',
    change: (d) => [
      `create unique index if not exists uq_application_versions_owner_version ` +
        `on ${d.table('application_versions')} (application_name, version_name) where application_name is not null`,
    ],
  },
  {
    version: 107,
    name: 'one version name without an application',
    change: (d) => [
      `create unique index if not exists uq_application_versions_unclaimed_version ` +
        `on ${d.table('application_versions')} (version_name) where application_name is null`,
    ],
  },
  {
    version: 108,
    name: 'limits per queue partition',
    change: (d) =>
      d.addColumns(
        'queues',
        'partition_concurrency integer',
        'partition_worker_concurrency integer',
        'partition_rate_limit_max integer',
        `partition_rate_limit_period_sec ${d.double}`,
      ),
  },
];
