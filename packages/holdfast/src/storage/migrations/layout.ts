import { HoldfastError } from '../../model/errors.js';
import type { Ddl } from './migration.js';

/**
 * The tables and columns that statements of this version read or write. The migration counters only show which
 * migrations ran; this list is what must exist now. Columns that only DBOS uses are left out, so that DBOS may drop
 * them.
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

/** Only on Postgres: the order of messages. On SQLite the row number is the order. */
const onPostgres: Layout = { notifications: { bigint: 'send_seq' } };

/** The unique keys that statements rely on. A partial index is enough for keys that not every row has. */
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

/**
 * The state of the database at the place of an expected column: no table, a relation that is not a table, no column, or
 * a column of another type.
 */
export interface FoundColumn {
  readonly table: string;
  readonly column: string;
  readonly expected: string;
  /** `table`, `view` and so on. Null: no relation has the name of the table. */
  readonly relation: string | null;
  readonly type: string | null;
}

/**
 * Throws if there is any problem, before Holdfast reads or writes a row. `others` are problems in addition to `found`.
 */
export function refuseLayout(found: readonly FoundColumn[], where: string, others: readonly string[] = []): void {
  const problems = [...new Set([...found.map(problemOf), ...others])];
  if (problems.length === 0) return;
  throw new HoldfastError(
    'SCHEMA_MISMATCH',
    `${where} does not have the layout that Holdfast needs: ${problems.join('; ')}. ` +
      'Find out who changed the tables and restore them, or give Holdfast its own schema or database. ' +
      'Nothing was changed.',
    { details: { problems } },
  );
}

function problemOf({ table, column, expected, relation, type }: FoundColumn): string {
  if (relation === null) return `the table ${table} is missing`;
  if (relation !== 'table') return `${table} is a ${relation}, not a table`;
  if (type === null) return `the column ${table}.${column} is missing`;
  return `the column ${table}.${column} has the type ${type} instead of ${expected}`;
}

/** The highest tested version of the shared layout. DBOS 5.3 for TypeScript migrates to this version. */
const highestTestedShared = 123;

export function untestedVersionWarning(shared: number, where: string): string | undefined {
  if (shared <= highestTestedShared) return undefined;
  return (
    `${where} was migrated by a newer DBOS than this version of Holdfast was tested with: ` +
    `dbos_migrations is at ${shared}, and Holdfast was tested up to ${highestTestedShared}. ` +
    'All columns that Holdfast needs exist. ' +
    'Upgrade the holdfast package, or test this combination before you depend on it.'
  );
}
