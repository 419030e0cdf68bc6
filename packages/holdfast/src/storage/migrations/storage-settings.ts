import type { Ddl } from './migration.js';

/**
 * How Postgres keeps the tables: what these settings change is only where rows lie and when dead ones are removed, so that they
 * suit a database with DBOS applications as well.
 *
 * - Rows that are updated in place again and again (a heartbeat, a queue's turn, an attempt of a step) change no indexed
 *   column. With room on their page such an update is HOT: it writes to no index.
 * - Workflows are updated at most a few times, and most of these updates change `status`, which indexes name: none of those is HOT.
 *   With room on its page the new row still lies beside the old one.
 * - The usual fifth of a table may be dead before autovacuum comes. In a table of millions that is a queue's index full of
 *   entries for work that is long done.
 */
const settings: Readonly<Record<string, string>> = {
  executors: 'fillfactor = 50',
  queues: 'fillfactor = 50',
  workflow_schedules: 'fillfactor = 70',
  step_attempts: 'fillfactor = 70',
  workflow_events: 'fillfactor = 80',
  workflow_status: 'fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05',
  notifications: 'fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05',
  operation_outputs: 'autovacuum_vacuum_scale_factor = 0.05',
};

export function storageSettings(d: Ddl): string[] {
  return Object.entries(settings).map(([table, list]) => `alter table ${d.table(table)} set (${list})`);
}

/** A query with a row if an operator has made such settings, which stay as they are then, all of them. */
export function hasStorageSettings(d: Ddl): string {
  const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;
  return (
    'select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace ' +
    `where n.nspname = ${text(d.schema)} and c.relkind in ('r', 'p') and c.reloptions is not null limit 1`
  );
}
