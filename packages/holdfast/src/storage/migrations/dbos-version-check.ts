import { isOnline } from './migration.js';
import { sharedMigrations } from './shared.js';

/**
 * Below version 100 the number in `dbos_migrations` does not identify the layout of a database. Holdfast uses the
 * numbers of DBOS for Python and Go. DBOS for TypeScript numbered its migrations differently, and the SQLite files of
 * Python and Go have yet other numbers. Running migration N + 1 of Holdfast after migration N of another numbering
 * would corrupt the database. Therefore Holdfast checks the layout itself: each landmark must be present from its
 * version on, and absent before.
 */
const landmarks: readonly (readonly [version: number, fact: string])[] = [
  [1, 'workflow_status.deduplication_id'],
  [1, 'operation_outputs.child_workflow_id'],
  [1, 'streams.offset'],
  [2, 'workflow_status.queue_partition_key'],
  [4, 'workflow_status.forked_from'],
  [5, 'operation_outputs.completed_at_epoch_ms'],
  [6, 'workflow_events_history.function_id'],
  [7, 'workflow_status.owner_xid'],
  [8, 'workflow_status.parent_workflow_id'],
  [9, 'workflow_schedules.schedule_id'],
  [11, 'workflow_status.serialization'],
  [12, 'notifications.consumed'],
  [13, 'application_versions.version_id'],
  [15, 'workflow_schedules.cron_timezone'],
  [16, 'workflow_status.delay_until_epoch_ms'],
  [17, 'workflow_schedules.queue_name'],
  [18, 'workflow_status.was_forked_from'],
  [21, 'queues.queue_id'],
  [27, 'uq_workflow_status_dedup_id'],
  [33, 'workflow_status.rate_limited'],
  [36, 'workflow_status.completed_at'],
  [40, 'workflow_status.attributes'],
  [41, 'workflow_status.schedule_name'],
  [42, 'workflow_status.is_debounced'],
  [46, 'idx_workflow_status_partition_dequeue_v2'],
  [100, 'workflow_status.application_name'],
];

/** An index that DBOS had only in the versions 45 and 46. */
const temporaryIndex = { name: 'idx_workflow_status_partition_dequeue', until: 47 };

/**
 * Returns why the database cannot be at this version of the Holdfast numbering, or null if nothing contradicts the
 * version. `facts` contains each column as `table.column` and each index by its name.
 */
export function contradiction(version: number, facts: ReadonlySet<string>): string | null {
  if (version >= 100) return null;
  // The next version may be partly applied if it builds indexes and was interrupted.
  const next = sharedMigrations.find((migration) => migration.version > version);
  const begun = next && isOnline(next) ? next.version : version;
  for (const [since, fact] of landmarks) {
    if (since <= version && !facts.has(fact)) return `${fact} is missing`;
    if (since > begun && facts.has(fact)) return `${fact} exists already`;
  }
  if (version >= temporaryIndex.until && facts.has(temporaryIndex.name)) return `${temporaryIndex.name} still exists`;
  return null;
}
