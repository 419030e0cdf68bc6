import { describeError, HoldfastError } from '../../model/errors.js';
import type { Row } from '../database.js';
import { wrappedSqlState } from '../postgres/failures.js';
import { quoteIdentifier } from '../postgres/identifiers.js';
import type { Datasource } from './datasource.js';

/**
 * The table `transaction_completion` in the application's own database. It holds the outcome of a transaction step,
 * committed together with the changes of the step.
 *
 * The table is the one of DBOS with three additional columns: the creation time of the workflow (`started_at`), a token
 * of the workflow (`incarnation`), and the format of the outcome (`serialization`).
 *
 * An earlier workflow with the same ID may have been deleted. Its records stay here, because this database may have
 * been out of reach at that time. Such records are ignored: they have other values in these columns or, if DBOS wrote
 * them, are older than this workflow. The creation time alone does not distinguish two workflows that were created in
 * the same millisecond. Processes that do not know the token write records with the creation time only.
 */
export interface Completions {
  find<Tx>(datasource: Datasource<Tx>, tx: Tx, key: CompletionKey): Promise<Completion | undefined>;
  /**
   * Returns true if the record was written, and false if another execution of the workflow wrote it before. Replaces
   * the record of an earlier workflow.
   */
  insert<Tx>(datasource: Datasource<Tx>, tx: Tx, row: NewCompletion): Promise<boolean>;
}

interface CompletionKey {
  readonly workflowId: string;
  readonly stepNumber: number;
  /** The instant at which the workflow was created. */
  readonly startedAt: number;
  /** Null: the workflow is older than these tokens. */
  readonly incarnation: string | null;
}

export interface Completion {
  readonly output: string | null;
  readonly error: string | null;
  /** Null: the format is not recorded, so it is the format of the app. */
  readonly serialization: string | null;
}

interface NewCompletion extends CompletionKey, Completion {
  readonly createdAt: number;
}

/**
 * Creates or extends the table if necessary. If the role may not change an existing table, the table is used as it is.
 */
export async function openCompletions<Tx>(datasource: Datasource<Tx>): Promise<Completions> {
  for (let tries = 1; ; tries++) {
    const found = await readState(datasource);
    if (found.columns.length === ownColumns.length) return completions(datasource, found.columns);
    try {
      await datasource.transact({}, (tx) => create(datasource, tx));
    } catch (error) {
      if (isForbidden(error)) {
        if (found.present) return completions(datasource, found.columns);
        throw missingTable(datasource, error);
      }
      // A program that does not take our lock, such as DBOS, created the table at the same moment.
      if (!duplicateCodes.has(wrappedSqlState(error) ?? '') || tries === maxTries) throw error;
    }
  }
}

/** Resolves with true if the table exists, as seen in a transaction of the caller. */
export async function hasCompletions<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<boolean> {
  return (await readStateIn(datasource, tx)).present;
}

const maxTries = 5;
const insufficientPrivilege = '42501';
/** Duplicate key, schema, table or column. */
const duplicateCodes = new Set(['23505', '42P06', '42P07', '42701']);

/** The advisory lock held while the table is created: any number other than the lock of the migrations. */
const creationLock = 7_203_914_366_120_581n;

/** The columns that Holdfast adds to the table of DBOS, in this order. */
const ownColumns = ['started_at', 'incarnation', 'serialization'] as const;
const columnTypes = { started_at: 'bigint', incarnation: 'text', serialization: 'text' };
type OwnColumn = (typeof ownColumns)[number];

interface TableState {
  readonly present: boolean;
  /** Those of {@link ownColumns} that exist. */
  readonly columns: readonly OwnColumn[];
}

function missingTable<Tx>(datasource: Datasource<Tx>, cause: unknown): HoldfastError {
  return new HoldfastError(
    'MIGRATION_REQUIRED',
    `Transactions need the table ${tableOf(datasource)} in the database in which they commit, and this role may not ` +
      `create it. Run this as a role that may: create schema if not exists ${quoteIdentifier(datasource.schema)}; ` +
      `${createTableText(datasource)}. Then grant this role usage on the schema, and select, insert and update on ` +
      'the table.',
    { cause, details: { schema: datasource.schema } },
  );
}

/** Returns true if the role may not use the existing table or its schema. */
export function isForbidden(error: unknown): boolean {
  return wrappedSqlState(error) === insufficientPrivilege;
}

export function forbiddenError<Tx>(datasource: Datasource<Tx>, name: string, cause: unknown): HoldfastError {
  return new HoldfastError(
    'MIGRATION_REQUIRED',
    `Transaction "${name}" changed nothing, because its outcome cannot be recorded (${describeError(cause)}). ` +
      `Grant its role usage on the schema, and select, insert and update on the table ${tableOf(datasource)}.`,
    { cause, details: { schema: datasource.schema } },
  );
}

function readState<Tx>(datasource: Datasource<Tx>): Promise<TableState> {
  return datasource.transact({}, (tx) => readStateIn(datasource, tx));
}

async function readStateIn<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<TableState> {
  const names = (rows: readonly Row[]): Set<unknown> => new Set(rows.map(({ name }) => name));
  if (datasource.dialect === 'sqlite') {
    const found = names(await datasource.query(tx, "select name from pragma_table_info('transaction_completion')", []));
    return { present: found.size > 0, columns: ownColumns.filter((column) => found.has(column)) };
  }
  const found = names(
    await datasource.query(
      tx,
      'select attname::text as name from pg_catalog.pg_attribute ' +
        'where attrelid = to_regclass($1) and attnum > 0 and not attisdropped',
      [tableOf(datasource)],
    ),
  );
  return { present: found.size > 0, columns: ownColumns.filter((column) => found.has(column)) };
}

function tableOf<Tx>({ dialect, schema }: Datasource<Tx>): string {
  return dialect === 'sqlite' ? 'transaction_completion' : `${quoteIdentifier(schema)}.transaction_completion`;
}

async function create<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<void> {
  const query = (text: string, params: readonly unknown[] = []): Promise<Row[]> => datasource.query(tx, text, params);
  const { dialect, schema } = datasource;
  const table = tableOf(datasource);
  // All processes of a fleet may get here at once, and `if not exists` does not prevent a collision.
  if (dialect === 'postgres') await query(`select pg_advisory_xact_lock(${creationLock})`);
  const { present, columns } = await readStateIn(datasource, tx);
  const missing = ownColumns.filter((column) => !columns.includes(column));
  if (present) {
    for (const column of missing) await query(`alter table ${table} add column ${column} ${columnTypes[column]}`);
    return;
  }
  if (dialect === 'postgres') {
    // The statement cannot use `if not exists`: Postgres would check the right to create the schema even if the schema
    // exists.
    const schemas = await query('select 1 as found from pg_catalog.pg_namespace where nspname = $1', [schema]);
    if (schemas.length === 0) await query(`create schema ${quoteIdentifier(schema)}`);
  }
  await query(createTableText(datasource));
}

function createTableText<Tx>(datasource: Datasource<Tx>): string {
  const now =
    datasource.dialect === 'sqlite'
      ? "(cast(round((julianday('now') - 2440587.5) * 86400000) as integer))"
      : '(extract(epoch from now()) * 1000)::bigint';
  return (
    `create table ${tableOf(datasource)} (workflow_id text not null, function_num int not null, output text, ` +
    `error text, created_at bigint not null default ${now}, ` +
    `${ownColumns.map((column) => `${column} ${columnTypes[column]}`).join(', ')}, ` +
    'primary key (workflow_id, function_num))'
  );
}

/**
 * The condition under which a record `t` belongs to this workflow. Both statements use the same text, so that `insert`
 * replaces exactly the records that `find` ignores. Parameters: $1 workflow ID, $2 step number, $3 creation time, $4
 * token.
 */
function isOurs(columns: readonly OwnColumn[]): string {
  const created = columns.includes('started_at')
    ? 'coalesce(t.started_at = $3, t.created_at >= $3)'
    : 't.created_at >= $3';
  // If one side has no token, the creation times decide.
  return columns.includes('incarnation') ? `(${created} and coalesce(t.incarnation = $4, true))` : created;
}

function completions<Any>(opened: Datasource<Any>, columns: readonly OwnColumn[]): Completions {
  const table = tableOf(opened);
  const ours = isOurs(columns);
  // A parameter that a statement does not use must still have a type.
  const typed = columns.includes('incarnation') ? '' : 'and (cast($4 as text) is null or true)';
  const replaced = ['output', 'error', 'created_at', ...columns];
  const hasFormat = columns.includes('serialization');
  const find =
    `select t.output, t.error, ${hasFormat ? 't.serialization' : 'cast(null as text) as serialization'} ` +
    `from ${table} t where t.workflow_id = $1 and t.function_num = $2 and ${ours} ${typed}`;
  // A record of a later workflow stays: then this workflow was deleted, and its process does not know this yet.
  const isLater = columns.includes('started_at') ? 'coalesce(t.started_at > $3, false)' : 'false';
  const ownParameters = { started_at: '$3', incarnation: '$4', serialization: '$8' };
  const castOwn = columns.map((column) => `cast(${ownParameters[column]} as ${columnTypes[column]})`);
  const values = ['cast($7 as bigint)', ...castOwn].join(', ');
  const insert = [
    `insert into ${table} as t (workflow_id, function_num, ${replaced.join(', ')})`,
    `select cast($1 as text), cast($2 as int), cast($5 as text), cast($6 as text), ${values}`,
    `where true ${typed} ${hasFormat ? '' : 'and (cast($8 as text) is null or true)'}`,
    'on conflict (workflow_id, function_num) do update',
    `set ${replaced.map((column) => `${column} = excluded.${column}`).join(', ')}`,
    `where not ${ours} and not ${isLater} returning workflow_id`,
  ].join(' ');
  return {
    find: async (datasource, tx, { workflowId, stepNumber, startedAt, incarnation }) => {
      const [row] = await datasource.query(tx, find, [workflowId, stepNumber, startedAt, incarnation]);
      if (!row) return undefined;
      const [output, error, serialization] = [row.output, row.error, row.serialization] as (string | null)[];
      return { output: output ?? null, error: error ?? null, serialization: serialization ?? null };
    },
    insert: async (datasource, tx, row) => {
      const { workflowId, stepNumber, startedAt, incarnation, output, error, createdAt, serialization } = row;
      const params = [workflowId, stepNumber, startedAt, incarnation, output, error, createdAt, serialization];
      return (await datasource.query(tx, insert, params)).length > 0;
    },
  };
}
