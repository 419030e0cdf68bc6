import type { Ddl } from './migration.js';

/**
 * Storage parameters of the Postgres tables. They only affect where rows are stored and when dead rows are removed, so
 * they also suit a database that DBOS applications use.
 *
 * - Some rows are updated very often: a heartbeat, the lock version of a queue, an attempt of a step. These updates
 *   change no indexed column. With free space on the page such an update is HOT: it writes to no index.
 * - A workflow row is updated only a few times. Most of these updates change `status`, which indexes contain, so they
 *   are not HOT. With free space on the page the new row version at least stays on the same page as the old one.
 * - By default a fifth of a table may be dead before autovacuum runs. In a table with millions of rows the index of a
 *   queue would then be full of entries for finished work.
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

/** Returns a query that has a row if an operator has set storage parameters. Then all settings stay as they are. */
export function hasStorageSettings(d: Ddl): string {
  const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;
  return (
    'select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace ' +
    `where n.nspname = ${text(d.schema)} and c.relkind in ('r', 'p') and c.reloptions is not null limit 1`
  );
}
