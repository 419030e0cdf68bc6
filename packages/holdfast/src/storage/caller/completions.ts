import { describeError, HoldfastError } from '../../model/errors.js';
import type { Row } from '../database.js';
import { stateOf } from '../postgres/failures.js';
import { quoteIdentifier } from '../postgres/identifiers.js';
import type { Datasource } from './datasource.js';

/**
 * The table `transaction_completion` in the application's own database: what a transaction step came to, committed with
 * what it did. It is the table of DBOS, with columns of ours: when the workflow was created (`started_at`), a token of
 * it (`incarnation`), and the format of what is recorded (`serialization`). The ID may have belonged to another workflow before, which was deleted since. Nothing is deleted here then,
 * perhaps out of reach: its records have other values there, or, if DBOS wrote them, are older than this workflow, and count
 * for nobody. The instant alone does not tell two apart that were created in the same millisecond; records of processes
 * that did not know the token yet have only that.
 */
export interface Completions {
  find<Tx>(datasource: Datasource<Tx>, tx: Tx, key: CompletionKey): Promise<Completion | undefined>;
  /** Whether it was written; if not, another execution of the workflow has. Replaces what an earlier workflow left. */
  insert<Tx>(datasource: Datasource<Tx>, tx: Tx, row: NewCompletion): Promise<boolean>;
}

interface CompletionKey {
  readonly workflowId: string;
  readonly stepNumber: number;
  /** When the workflow was created. */
  readonly startedAt: number;
  /** Null: the workflow is older than such tokens. */
  readonly incarnation: string | null;
}

export interface Completion {
  readonly output: string | null;
  readonly error: string | null;
  /** Null: not on record, which is the format of the app. */
  readonly serialization: string | null;
}

interface NewCompletion extends CompletionKey, Completion {
  readonly createdAt: number;
}

/** The table, created if it is not there, or as it is if this role may not change it. */
export async function openCompletions<Tx>(datasource: Datasource<Tx>): Promise<Completions> {
  for (let tries = 1; ; tries++) {
    const standing = await look(datasource);
    if (standing.columns.length === ownColumns.length) return completions(datasource, standing.columns);
    try {
      await datasource.transact({}, (tx) => create(datasource, tx));
    } catch (error) {
      if (isForbidden(error)) {
        if (standing.present) return completions(datasource, standing.columns);
        throw missingTable(datasource, error);
      }
      // Somebody who does not know our lock, DBOS for one, creates it at the same moment.
      if (!beatenTo.has(stateOf(error) ?? '') || tries === maxTries) throw error;
    }
  }
}

/** Whether the table is there already, asked in a transaction of the caller's. */
export async function hasCompletions<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<boolean> {
  return (await standingOf(datasource, tx)).present;
}

const maxTries = 5;
const insufficientPrivilege = '42501';
/** Duplicate key, schema, table or column. */
const beatenTo = new Set(['23505', '42P06', '42P07', '42701']);

/** Held while the table is created: any number that is not the lock of the migrations. */
const creationLock = 7_203_914_366_120_581n;

/** What we add to the table of DBOS, in this order. */
const ownColumns = ['started_at', 'incarnation', 'serialization'] as const;
const columnTypes = { started_at: 'bigint', incarnation: 'text', serialization: 'text' };
type OwnColumn = (typeof ownColumns)[number];

interface Standing {
  readonly present: boolean;
  /** Those of {@link ownColumns} that are there. */
  readonly columns: readonly OwnColumn[];
}

function missingTable<Tx>(datasource: Datasource<Tx>, cause: unknown): HoldfastError {
  return new HoldfastError(
    'MIGRATION_REQUIRED',
    `Transactions need the table ${tableOf(datasource)} in the database that they commit in, and this role may not ` +
      `create it. Let one that may run: create schema if not exists ${quoteIdentifier(datasource.schema)}; ` +
      `${tableText(datasource)}; and grant this one usage on the schema, and select, insert and update on the table.`,
    { cause, details: { schema: datasource.schema } },
  );
}

/** This role may not use the table that is there, or its schema. */
export function isForbidden(error: unknown): boolean {
  return stateOf(error) === insufficientPrivilege;
}

export function forbidden<Tx>(datasource: Datasource<Tx>, name: string, cause: unknown): HoldfastError {
  return new HoldfastError(
    'MIGRATION_REQUIRED',
    `Transaction "${name}" changed nothing, because it cannot be put on record (${describeError(cause)}). Grant its role usage on the schema, and select, insert and update ` +
      `on the table ${tableOf(datasource)}.`,
    { cause, details: { schema: datasource.schema } },
  );
}

function look<Tx>(datasource: Datasource<Tx>): Promise<Standing> {
  return datasource.transact({}, (tx) => standingOf(datasource, tx));
}

async function standingOf<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<Standing> {
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
  // All processes of a fleet may come to this at once, and `if not exists` does not keep them from colliding.
  if (dialect === 'postgres') await query(`select pg_advisory_xact_lock(${creationLock})`);
  const { present, columns } = await standingOf(datasource, tx);
  const missing = ownColumns.filter((column) => !columns.includes(column));
  if (present) {
    for (const column of missing) await query(`alter table ${table} add column ${column} ${columnTypes[column]}`);
    return;
  }
  if (dialect === 'postgres') {
    // Not `if not exists`, which asks for the right to create before it looks.
    const there = await query('select 1 as found from pg_catalog.pg_namespace where nspname = $1', [schema]);
    if (there.length === 0) await query(`create schema ${quoteIdentifier(schema)}`);
  }
  await query(tableText(datasource));
}

function tableText<Tx>(datasource: Datasource<Tx>): string {
  const now =
    datasource.dialect === 'sqlite'
      ? "(cast(round((julianday('now') - 2440587.5) * 86400000) as integer))"
      : '(extract(epoch from now()) * 1000)::bigint';
  return (
    `create table ${tableOf(datasource)} (workflow_id text not null, function_num int not null, output text, ` +
    `error text, created_at bigint not null default ${now}, ` +
    `${ownColumns.map((column) => `${column} ${columnTypes[column]}`).join(', ')}, primary key (workflow_id, function_num))`
  );
}

/**
 * That a record `t` is of this workflow, in the same words for both statements: what `find` does not count, `insert`
 * replaces. Parameters: $1 workflow, $2 step, $3 when it was created, $4 its token.
 */
function isOurs(columns: readonly OwnColumn[]): string {
  const created = columns.includes('started_at')
    ? 'coalesce(t.started_at = $3, t.created_at >= $3)'
    : 't.created_at >= $3';
  // Without a token on either side the instants decide.
  return columns.includes('incarnation') ? `(${created} and coalesce(t.incarnation = $4, true))` : created;
}

function completions<Any>(opened: Datasource<Any>, columns: readonly OwnColumn[]): Completions {
  const table = tableOf(opened);
  const ours = isOurs(columns);
  // A parameter that a statement has no use for must still have a type.
  const typed = columns.includes('incarnation') ? '' : 'and (cast($4 as text) is null or true)';
  const replaced = ['output', 'error', 'created_at', ...columns];
  const isTold = columns.includes('serialization');
  const find =
    `select t.output, t.error, ${isTold ? 't.serialization' : 'cast(null as text) as serialization'} from ${table} t ` +
    `where t.workflow_id = $1 and t.function_num = $2 and ${ours} ${typed}`;
  // A record of a later workflow stays: then this one was deleted, and its process has yet to hear of it.
  const isLater = columns.includes('started_at') ? 'coalesce(t.started_at > $3, false)' : 'false';
  const own = { started_at: '$3', incarnation: '$4', serialization: '$8' };
  const given = ['cast($7 as bigint)', ...columns.map((column) => `cast(${own[column]} as ${columnTypes[column]})`)];
  const insert = [
    `insert into ${table} as t (workflow_id, function_num, ${replaced.join(', ')})`,
    `select cast($1 as text), cast($2 as int), cast($5 as text), cast($6 as text), ${given.join(', ')}`,
    `where true ${typed} ${isTold ? '' : 'and (cast($8 as text) is null or true)'} on conflict (workflow_id, function_num) do update`,
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
      const values = [workflowId, stepNumber, startedAt, incarnation, output, error, createdAt, serialization];
      return (await datasource.query(tx, insert, values)).length > 0;
    },
  };
}
