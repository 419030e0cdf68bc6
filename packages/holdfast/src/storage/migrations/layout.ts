import { HoldfastError } from '../../model/errors.js';
import type { Ddl } from './migration.js';

/**
 * The tables and columns that statements of this version read or write. A number in a counter says what somebody has done to a
 * database once; this is what must be there now. Columns that only others use are left out, so that they may drop those.
 */
const columns: Layout = {
  workflow_status: {
    text:
      'workflow_uuid status name class_name config_name authenticated_user assumed_role authenticated_roles inputs output ' +
      'error serialization executor_id owner_xid application_version application_name queue_name queue_partition_key ' +
      'deduplication_id schedule_name parent_workflow_id forked_from status_reason resting_owner seed incarnation retries ' +
      'under_way',
    bigint:
      'created_at updated_at started_at_epoch_ms completed_at recovery_attempts workflow_timeout_ms ' +
      'workflow_deadline_epoch_ms delay_until_epoch_ms debounce_deadline_epoch_ms enqueue_seq first_started_at began_at',
    integer: 'priority',
    boolean: 'was_forked_from rate_limited is_debounced detached',
    json: 'attributes',
  },
  operation_outputs: {
    text: 'workflow_uuid function_name output error serialization child_workflow_id application_name',
    bigint: 'started_at_epoch_ms completed_at_epoch_ms',
    integer: 'function_id completion_seq requested_after',
  },
  workflow_input: { text: 'workflow_uuid inputs' },
  workflow_output: { text: 'workflow_uuid output error' },
  notifications: {
    text: 'message_uuid destination_uuid topic message serialization',
    bigint: 'created_at_epoch_ms',
    integer: 'consumed_by',
    boolean: 'consumed announced_by_sender',
  },
  workflow_events: { text: 'workflow_uuid key value serialization' },
  workflow_events_history: { text: 'workflow_uuid key value serialization', integer: 'function_id' },
  streams: { text: 'workflow_uuid key value serialization', integer: 'offset function_id' },
  queues: {
    text: 'queue_id name application_name while_waiting',
    bigint: 'created_at updated_at turn',
    integer:
      'concurrency worker_concurrency rate_limit_max partition_concurrency partition_worker_concurrency ' +
      'partition_rate_limit_max',
    double: 'rate_limit_period_sec polling_interval_sec partition_rate_limit_period_sec',
    boolean: 'priority_enabled partition_queue paused partitioned',
  },
  workflow_schedules: {
    text:
      'schedule_id schedule_name workflow_name workflow_class_name schedule status context last_fired_at cron_timezone ' +
      'queue_name application_name catch_up',
    bigint: 'active_since',
    integer: 'catch_up_limit',
    boolean: 'automatic_backfill',
  },
  application_versions: {
    text: 'version_id version_name application_name name_in_app',
    bigint: 'version_timestamp created_at',
  },
  executors: {
    text: 'incarnation executor_id application_name application_version host process_start lock_key listens',
    bigint: 'pid ttl_ms started_at heartbeat_at beats takeovers',
  },
  step_attempts: { text: 'workflow_uuid token interrupted', bigint: 'next_at', integer: 'function_id attempt' },
};

/** On Postgres, the order of messages. On SQLite that is the number of the row. */
const onPostgres: Layout = { notifications: { bigint: 'send_seq' } };

/** What statements rely on to be there once. A partial index will do for those in which not every row takes part. */
export const expectedKeys: readonly {
  readonly table: string;
  readonly columns: string;
  readonly mayBePartial?: true;
}[] = [
  { table: 'workflow_status', columns: 'workflow_uuid' },
  { table: 'workflow_status', columns: 'queue_name deduplication_id', mayBePartial: true },
  { table: 'operation_outputs', columns: 'workflow_uuid function_id' },
  { table: 'notifications', columns: 'message_uuid' },
  { table: 'workflow_events', columns: 'workflow_uuid key' },
  { table: 'workflow_events_history', columns: 'workflow_uuid function_id key' },
  { table: 'streams', columns: 'workflow_uuid key offset' },
  { table: 'queues', columns: 'name' },
  { table: 'workflow_schedules', columns: 'schedule_name' },
  { table: 'executors', columns: 'incarnation' },
  { table: 'step_attempts', columns: 'workflow_uuid function_id' },
];

type Layout = Readonly<Record<string, { readonly [Kind in ColumnKind]?: string }>>;

export type ColumnKind = 'text' | 'bigint' | 'integer' | 'double' | 'boolean' | 'json';

export interface ExpectedColumn {
  readonly table: string;
  readonly column: string;
  readonly kind: ColumnKind;
}

export function expectedColumns(database: Ddl['name']): ExpectedColumn[] {
  const layouts = database === 'postgres' ? [columns, onPostgres] : [columns];
  return layouts.flatMap((layout) =>
    Object.entries(layout).flatMap(([table, kinds]) =>
      Object.entries(kinds).flatMap(([kind, names]) =>
        names.split(' ').map((column) => ({ table, column, kind: kind as ColumnKind })),
      ),
    ),
  );
}

/** What is there instead of a column: nothing of the name, something that is no table, or a table whose column is another. */
export interface FoundColumn {
  readonly table: string;
  readonly column: string;
  readonly expected: string;
  /** `table`, `view`, ... Null: there is nothing of the name. */
  readonly relation: string | null;
  readonly type: string | null;
}

/** Refuses a database that cannot be worked on, before anything is read or written there. */
export function refuseLayout(found: readonly FoundColumn[], where: string, more: readonly string[] = []): void {
  const problems = [...new Set([...found.map(problemOf), ...more])];
  if (problems.length === 0) return;
  throw new HoldfastError(
    'SCHEMA_MISMATCH',
    `${where} is not laid out as Holdfast needs it: ${problems.join('; ')}. Find out who has changed the tables, and restore ` +
      'them; or give Holdfast a schema or database of its own. Nothing was changed.',
    { details: { problems } },
  );
}

function problemOf({ table, column, expected, relation, type }: FoundColumn): string {
  if (relation === null) return `the table ${table} is missing`;
  if (relation !== 'table') return `${table} is a ${relation}, not a table`;
  if (type === null) return `the column ${table}.${column} is missing`;
  return `the column ${table}.${column} has the type ${type} instead of ${expected}`;
}

/** The highest version of the shared layout that is tested: DBOS 5.3 for TypeScript ends there. */
const highestTestedShared = 123;

export function beyondTested(shared: number, where: string): string | undefined {
  if (shared <= highestTestedShared) return undefined;
  return (
    `${where} was migrated by a newer DBOS than this version of Holdfast is tested with: dbos_migrations is at ${shared}, and ` +
    `tested is everything up to ${highestTestedShared}. The columns that Holdfast needs are there. Upgrade the holdfast ` +
    'package, or try this combination before you depend on it.'
  );
}
