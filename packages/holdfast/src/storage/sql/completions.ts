import { HoldfastError } from '../../model/errors.js';
import type { Row } from '../database.js';
import type { Datasource } from '../datasource.js';
import { sqlState } from '../postgres/failures.js';
import { quoteIdentifier } from '../postgres/identifiers.js';

/**
 * The table `transaction_completion` in the application's own database: what a transaction step came to, committed with
 * what it did. It is the table of DBOS, with a column of ours, `started_at`: when the workflow was created. The ID may
 * have belonged to another workflow before, which was deleted since; its records have another value there, or, if DBOS
 * wrote them, are older than this workflow.
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
}

export interface Completion {
  readonly output: string | null;
  readonly error: string | null;
}

interface NewCompletion extends CompletionKey, Completion {
  readonly createdAt: number;
}

/** The table, created if it is not there, or as it is if this role may not change it. */
export async function openCompletions<Tx>(datasource: Datasource<Tx>): Promise<Completions> {
  for (let tries = 1; ; tries++) {
    const standing = await look(datasource);
    if (standing.hasColumn) return completions(datasource, true);
    try {
      await datasource.transact({}, (tx) => create(datasource, tx));
    } catch (error) {
      if (stateOf(error) === insufficientPrivilege) {
        if (standing.present) return completions(datasource, false);
        throw missingTable(datasource, error);
      }
      // Somebody who does not know our lock, DBOS for one, creates it at the same moment.
      if (!beatenTo.has(stateOf(error) ?? '') || tries === mostTries) throw error;
    }
  }
}

/** Whether the table is there already, asked in a transaction of the caller's. */
export async function hasCompletions<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<boolean> {
  return (await standingOf(datasource, tx)).present;
}

const mostTries = 5;
const insufficientPrivilege = '42501';
/** Duplicate key, schema, table or column. */
const beatenTo = new Set(['23505', '42P06', '42P07', '42701']);

/** Held while the table is created: any number that is not the lock of the migrations. */
const creationLock = 7_203_914_366_120_581n;

interface Standing {
  readonly present: boolean;
  readonly hasColumn: boolean;
}

function stateOf(error: unknown): string | undefined {
  return sqlState(error) ?? (error instanceof Error && error.cause !== undefined ? stateOf(error.cause) : undefined);
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

function look<Tx>(datasource: Datasource<Tx>): Promise<Standing> {
  return datasource.transact({}, (tx) => standingOf(datasource, tx));
}

async function standingOf<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<Standing> {
  if (datasource.dialect === 'sqlite') {
    const rows = await datasource.query(tx, "select name from pragma_table_info('transaction_completion')", []);
    return { present: rows.length > 0, hasColumn: rows.some(({ name }) => name === 'started_at') };
  }
  const [row] = await datasource.query(
    tx,
    'select to_regclass($1) is not null as present, exists (select 1 from pg_catalog.pg_attribute ' +
      "where attrelid = to_regclass($1) and attname = 'started_at' and not attisdropped) as has_column",
    [tableOf(datasource)],
  );
  return { present: Boolean(row?.present), hasColumn: Boolean(row?.has_column) };
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
  const { present, hasColumn } = await standingOf(datasource, tx);
  if (hasColumn) return;
  if (present) return void (await query(`alter table ${table} add column started_at bigint`));
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
    `error text, created_at bigint not null default ${now}, started_at bigint, primary key (workflow_id, function_num))`
  );
}

function completions<Any>(opened: Datasource<Any>, hasColumn: boolean): Completions {
  const table = tableOf(opened);
  // The same two conditions in the same words: what `find` does not count as this workflow's, `insert` replaces.
  const counts = (parameter: string): string =>
    hasColumn ? `coalesce(t.started_at = ${parameter}, t.created_at >= ${parameter})` : `t.created_at >= ${parameter}`;
  const replaced = ['output', 'error', 'created_at', ...(hasColumn ? ['started_at'] : [])];
  const find =
    `select t.output, t.error from ${table} t ` +
    `where t.workflow_id = $1 and t.function_num = $2 and ${counts('$3')}`;
  const insert = [
    `insert into ${table} as t (workflow_id, function_num, output, error, created_at${hasColumn ? ', started_at' : ''})`,
    `values ($1, $2, $4, $5, $6${hasColumn ? ', $3' : ''}) on conflict (workflow_id, function_num) do update`,
    `set ${replaced.map((column) => `${column} = excluded.${column}`).join(', ')}`,
    `where not ${counts('$3')} returning workflow_id`,
  ].join(' ');
  return {
    find: async (datasource, tx, { workflowId, stepNumber, startedAt }) => {
      const [row] = await datasource.query(tx, find, [workflowId, stepNumber, startedAt]);
      return row && { output: row.output as string | null, error: row.error as string | null };
    },
    insert: async (datasource, tx, { workflowId, stepNumber, startedAt, output, error, createdAt }) =>
      (await datasource.query(tx, insert, [workflowId, stepNumber, startedAt, output, error, createdAt])).length > 0,
  };
}
