import { retriedRows, waitingRows } from '../database.js';
import type { Index } from './migration.js';

/** The indexes that Holdfast adds to the shared layout, one list for each migration in `holdfast-migrations.ts`. */

export const indexes: readonly Index[] = [
  // This index serves the sweep for passed deadlines. Name and definition are those of DBOS 5 (its version 122), so
  // that neither an adopted database nor a Holdfast database that DBOS migrates later gets a second index. SQLite uses
  // a partial index only if the query repeats its condition, so the conditions have the words of the queries.
  {
    name: 'idx_workflow_status_deadline',
    table: 'workflow_status',
    on: 'workflow_deadline_epoch_ms',
    where: "status in ('ENQUEUED', 'PENDING', 'DELAYED') and workflow_deadline_epoch_ms is not null",
  },
  {
    name: 'idx_holdfast_enqueued',
    table: 'workflow_status',
    on: 'queue_name, priority, created_at',
    only: 'sqlite',
    where: "status = 'ENQUEUED'",
  },
  // Recovery finds the executors with unfinished work, and takes over the work of dead executors. Sleeping workflows
  // are PENDING, too: without this index each sweep would read all of them. Equal entries are stored once, so the index
  // stays small.
  {
    name: 'idx_holdfast_pending_executor',
    table: 'workflow_status',
    on: 'application_version, executor_id',
    where: "status = 'PENDING'",
  },
  // Every process polls for new cancellations. The shared index would return all workflows that ended.
  {
    name: 'idx_holdfast_cancelled',
    table: 'workflow_status',
    on: 'completed_at',
    where: "status = 'CANCELLED'",
  },
];

export const queueIndexes: readonly Index[] = [
  // This index is in queue order. Rows from before the column `enqueue_seq` existed come first, the oldest of them
  // first.
  {
    name: 'idx_holdfast_queue',
    table: 'workflow_status',
    on: 'queue_name, priority, enqueue_seq, created_at',
    only: 'sqlite',
    where: "status = 'ENQUEUED'",
  },
  {
    name: 'idx_holdfast_queue',
    table: 'workflow_status',
    on: 'queue_name, priority, enqueue_seq nulls first, created_at',
    only: 'postgres',
    where: "status = 'ENQUEUED'",
  },
  {
    name: 'idx_holdfast_partition',
    table: 'workflow_status',
    on: 'queue_name, queue_partition_key, priority, enqueue_seq, created_at',
    only: 'sqlite',
    where: "status = 'ENQUEUED' and queue_partition_key is not null",
  },
  {
    name: 'idx_holdfast_partition',
    table: 'workflow_status',
    on: 'queue_name, queue_partition_key, priority, enqueue_seq nulls first, created_at',
    only: 'postgres',
    where: "status = 'ENQUEUED' and queue_partition_key is not null",
  },
  // The running workflows of a queue. On Postgres the shared indexes for work in flight serve this query.
  {
    name: 'idx_holdfast_running',
    table: 'workflow_status',
    on: 'queue_name, queue_partition_key',
    only: 'sqlite',
    where: "status = 'PENDING' and queue_name is not null",
  },
  {
    name: 'idx_holdfast_enqueue_seq',
    table: 'workflow_status',
    on: 'enqueue_seq',
    only: 'sqlite',
    where: 'enqueue_seq is not null',
  },
  // This index serves rate limits per partition. A shared index serves the rate limits of whole queues.
  {
    name: 'idx_holdfast_partition_rate',
    table: 'workflow_status',
    on: 'queue_name, queue_partition_key, started_at_epoch_ms',
    where: 'rate_limited = true and queue_partition_key is not null',
  },
];

export const messageIndexes: readonly Index[] = [
  // The unreceived messages of a workflow, oldest first. Received messages stay in the table.
  {
    name: 'idx_holdfast_unread',
    table: 'notifications',
    on: 'destination_uuid, topic',
    only: 'sqlite',
    where: 'consumed = false',
  },
  {
    name: 'idx_holdfast_unread',
    table: 'notifications',
    on: 'destination_uuid, topic, send_seq nulls first, created_at_epoch_ms',
    only: 'postgres',
    where: 'consumed = false',
  },
];

/**
 * Like {@link queueIndexes}, but ordered by version first. Workflows of a version that no process runs therefore do not
 * slow down the claims of other versions.
 */
export const versionIndexes: readonly Index[] = (['sqlite', 'postgres'] as const).flatMap((only) => {
  const order = `priority, enqueue_seq ${only === 'postgres' ? 'nulls first' : ''}, created_at`;
  const common = { table: 'workflow_status', only };
  return [
    {
      ...common,
      name: 'idx_holdfast_queue_version',
      on: `queue_name, application_version, ${order}`,
      where: "status = 'ENQUEUED'",
    },
    {
      ...common,
      name: 'idx_holdfast_partition_version',
      on: `queue_name, application_version, queue_partition_key, ${order}`,
      where: "status = 'ENQUEUED' and queue_partition_key is not null",
    },
  ];
});

/**
 * Indexes in queue order, for queues and for partitions: over all waiting workflows, and over the waiting workflows
 * that ran before. The wording of each condition is different (see `waitingRows`).
 */
export const waitingIndexes: readonly Index[] = (['sqlite', 'postgres'] as const).flatMap((only) => {
  const order = `priority, enqueue_seq ${only === 'postgres' ? 'nulls first' : ''}, created_at`;
  const common = { table: 'workflow_status', only };
  const named = { waiting: waitingRows[only], retried: retriedRows };
  return Object.entries(named).flatMap(([name, { onQueue, inPartition }]) => [
    {
      ...common,
      name: `idx_holdfast_${name}`,
      on: `queue_name, application_version, ${order}`,
      where: onQueue,
    },
    {
      ...common,
      name: `idx_holdfast_${name}_partition`,
      on: `queue_name, application_version, queue_partition_key, ${order}`,
      where: `${inPartition} and queue_partition_key is not null`,
    },
  ]);
});

/**
 * Separate indexes for the workflows of a queue that hold a slot and for suspended workflows without a slot. A claim
 * therefore reads only the workflows with a slot, however many are suspended. On Postgres the conditions have words
 * that match no other index on PENDING rows (`Dialect.holdsSlot`).
 */
export const slotIndexes: readonly Index[] = (['sqlite', 'postgres'] as const).flatMap((only) => {
  const isPending = only === 'postgres' ? "status || '' = 'PENDING'" : "status = 'PENDING'";
  const common = { table: 'workflow_status', only };
  return [
    {
      ...common,
      name: 'idx_holdfast_slots',
      on: 'queue_name, queue_partition_key',
      where: `${isPending} and queue_name is not null and (resting_owner = owner_xid) is not true`,
    },
    {
      ...common,
      name: 'idx_holdfast_resting',
      on: 'queue_name',
      where: `${isPending} and (resting_owner = owner_xid)`,
    },
  ];
});
