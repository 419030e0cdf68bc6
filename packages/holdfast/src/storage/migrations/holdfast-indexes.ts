import { retriedRows, waitingRows } from '../database.js';
import type { Index } from './migration.js';

/** The indexes that Holdfast adds to the shared layout, by the migration of `holdfast.ts` that builds them. */

export const indexes: readonly Index[] = [
  // The sweep for passed deadlines. By name and shape the index of DBOS 5 (its version 122), so that an adopted
  // database does not get a second one, nor a database of ours when DBOS migrates it on.
  // SQLite uses a partial index only for a query that repeats its condition, so these are in the queries' words.
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
  // Recovery asks which executors have unfinished work, and takes that of dead ones. Sleeping workflows are PENDING
  // as well: without this, each sweep would read all of them. Equal entries are stored once, so it stays small.
  {
    name: 'idx_holdfast_pending_executor',
    table: 'workflow_status',
    on: 'application_version, executor_id',
    where: "status = 'PENDING'",
  },
  // Every process asks again and again what was cancelled since; the shared index would answer with all that ended.
  {
    name: 'idx_holdfast_cancelled',
    table: 'workflow_status',
    on: 'completed_at',
    where: "status = 'CANCELLED'",
  },
];

export const queueIndexes: readonly Index[] = [
  // In the order in which a queue is worked off. Rows from before there was an order come first, oldest first.
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
  // What a queue is running. On Postgres the shared indexes for work in flight answer that.
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
  // Rate limits per partition. Those of whole queues have a shared index.
  {
    name: 'idx_holdfast_partition_rate',
    table: 'workflow_status',
    on: 'queue_name, queue_partition_key, started_at_epoch_ms',
    where: 'rate_limited = true and queue_partition_key is not null',
  },
];

export const messageIndexes: readonly Index[] = [
  // What a workflow has yet to receive, oldest first; what it has received stays in the table.
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
 * As those of {@link queueIndexes}, but by version first: what waits for a version that nobody runs is not in the way of
 * the others.
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
 * In the order in which a queue is worked off, and a partition of it: all that waits, and what of it has been tried before. In
 * words of their own, see `waitingRows`.
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
 * What runs of a queue and what rests, apart: however much rests, a claim counts only what runs. On Postgres in words that
 * no other index on PENDING rows fits (`Dialect.holdsSlot`).
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
