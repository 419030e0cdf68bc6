import type { Index, Migration } from './migration.js';

const indexes: readonly Index[] = [
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

/**
 * What Holdfast adds to the shared layout, counted in `holdfast_migrations`. DBOS ignores these columns, and none of
 * them changes what one of its own means. All indexes are partial: a write pays only for the rows they hold.
 */
export const holdfastMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'completion order, detached children, status reasons',
    change: (d) => [
      ...d.addColumns('operation_outputs', 'completion_seq integer'),
      ...d.addColumns('workflow_status', `detached ${d.boolean} not null default ${d.false}`, 'status_reason text'),
    ],
  },
  { version: 2, name: 'indexes for sweeps', indexes },
];
