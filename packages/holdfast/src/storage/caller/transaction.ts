import { wrongOption } from '../../model/options.js';
import type { Row } from '../database.js';
import { arrayLiteral } from '../postgres/array-literal.js';
import { bound, isInTransaction, withNumbers } from '../sqlite/connection.js';
import { positional } from '../sqlite/positional.js';

/**
 * A transaction that belongs to the caller, in which Holdfast runs statements. The library is recognized by the shape
 * of the caller's object. Therefore no library has to be installed or imported by users of another library.
 */
export interface CallerTransaction {
  readonly dialect: 'postgres' | 'sqlite';
  /** The shape of the object does not show whether a transaction has begun. */
  readonly mayBeIdle?: true;
  /** Runs one statement, with parameters `$1`, `$2` and so on. Resolves with the rows. */
  query(text: string, params: readonly unknown[]): Promise<Row[]>;
}

/** The operation to run in the transaction. Each requires other rights. */
export type Purpose = 'record a step' | 'start a workflow' | 'send a message';

type Query = CallerTransaction['query'];

/** The parts of each library that the functions below use. */
export interface PgClient {
  query(config: { text: string; values: unknown[] }): Promise<unknown>;
}
export interface PostgresJs {
  unsafe(text: string, params: never[]): PromiseLike<unknown>;
  typed(value: string, type: number): unknown;
}
export interface KnexLike {
  raw(text: string, bindings: never[]): PromiseLike<unknown>;
  readonly client: { readonly dialect?: unknown };
}
export interface KyselyLike {
  getExecutor(): {
    readonly adapter: { readonly supportsTransactionalDdl: boolean; readonly supportsReturning: boolean };
  };
  withoutPlugins(): { executeQuery(query: never): Promise<unknown> };
}
export interface DrizzlePg {
  execute(query: never): PromiseLike<unknown>;
}
/**
 * A Database of better-sqlite3, or a DatabaseSync of `node:sqlite`. `inTransaction` and `isTransaction` are their names
 * for the same property.
 */
export interface SqliteLike {
  exec(text: string): unknown;
  prepare(text: string): {
    /** `node:sqlite` has no such property, and runs `all` for every statement. */
    readonly reader?: boolean;
    setReadBigInts?(enabled: boolean): void;
    setReturnArrays?(enabled: boolean): void;
    all(...params: unknown[]): unknown;
    run(...params: unknown[]): unknown;
  };
  readonly inTransaction?: boolean;
  readonly isTransaction?: boolean;
}

export function pgQuery(client: PgClient): Query {
  return async (text, params) => rowsOf(await client.query({ text, values: forPostgres(params) }));
}

const textOid = 25;

/**
 * Sends texts with the type text. Otherwise postgres.js would encode a text that is cast to JSON as JSON a second time.
 */
export function postgresJsQuery(sql: PostgresJs): Query {
  return async (text, params) => {
    const values = forPostgres(params).map((value) => (typeof value === 'string' ? sql.typed(value, textOid) : value));
    return rowsOf(await sql.unsafe(text, values as never[]));
  };
}

export function knexQuery(trx: KnexLike, dialect: CallerTransaction['dialect']): Query {
  return async (text, params) => {
    const converted = dialect === 'postgres' ? forPostgres(params) : forSqlite(params);
    const { text: marked, values } = withQuestionMarks(text, converted, '\\?');
    return rowsOf(await trx.raw(marked, values as never[]));
  };
}

/** Runs statements without the plugins, which may rename columns. */
export function kyselyQuery(trx: KyselyLike, dialect: CallerTransaction['dialect']): Query {
  const plain = trx.withoutPlugins();
  return async (text, params) => {
    const { text: sql, values: parameters } =
      dialect === 'postgres' ? { text, values: forPostgres(params) } : withQuestionMarks(text, forSqlite(params), '?');
    const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
    const compiled = { sql, parameters, query, queryId: { queryId: `holdfast-${compiledCount++}` } };
    return rowsOf(await plain.executeQuery(compiled as never));
  };
}

let compiledCount = 0;

/** drizzle requires that a query can be converted to text and parameters. This query consists of them already. */
export function drizzleQuery(tx: DrizzlePg): Query {
  return async (text, params) => {
    const query = { getSQL: () => query, toQuery: () => ({ sql: text, params: forPostgres(params) }) };
    return rowsOf(await tx.execute(query as never));
  };
}

export function sqliteQuery(db: SqliteLike): Query {
  return async (text, params) => sqliteRows(db, text, params);
}

/** Returns rows in the form that Holdfast's statements expect, whatever options the connection was opened with. */
export function sqliteRows(db: SqliteLike, text: string, params: readonly unknown[] = []): Row[] {
  const { text: marked, order } = positional(text);
  const statement = db.prepare(marked);
  statement.setReadBigInts?.(true);
  statement.setReturnArrays?.(false);
  const values = bound(order, params);
  if (statement.reader !== false) return withNumbers(statement.all(...values) as Row[]);
  statement.run(...values);
  return [];
}

/** Returns undefined for a database on which Holdfast's statements do not run. */
export function knexDialect(knex: KnexLike): CallerTransaction['dialect'] | undefined {
  const { dialect } = knex.client;
  return dialect === 'postgresql' ? 'postgres' : dialect === 'sqlite3' ? 'sqlite' : undefined;
}

/** Recognizes the database by its capabilities, which are all that the adapters of kysely expose. */
export function kyselyDialect(db: KyselyLike): CallerTransaction['dialect'] | undefined {
  const { supportsReturning, supportsTransactionalDdl } = db.getExecutor().adapter;
  if (!supportsReturning) return undefined;
  return supportsTransactionalDdl ? 'postgres' : 'sqlite';
}

/** Returns the entity kinds of a drizzle object, its own kind first. */
export function drizzleKinds(given: object): string[] {
  const kinds: string[] = [];
  for (let type = given.constructor; typeof type === 'function'; type = Object.getPrototypeOf(type)) {
    const kind: unknown = Object.getOwnPropertyDescriptor(type, Symbol.for('drizzle:entityKind'))?.value;
    if (typeof kind === 'string') kinds.push(kind);
  }
  return kinds;
}

/** Returns the caller's open transaction, or throws a typed error that lists the supported libraries. */
export function callerTransaction(what: string, tx: unknown): CallerTransaction {
  const found = isObject(tx) ? recognize(tx) : undefined;
  if (found) return found;
  // The message does not show the value: it may hold the password of its connection.
  throw wrongOption(
    what,
    'tx',
    'must be an open transaction: a client of pg, the sql that begin() of postgres.js passes, or a transaction of ' +
      'knex, kysely or drizzle. On SQLite it can also be a DatabaseSync of node:sqlite or a Database of ' +
      'better-sqlite3 with an open transaction, or drizzle over one of them',
  );
}

type ObjectLike = object & Record<string, unknown>;

function isObject(value: unknown): value is ObjectLike {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

function recognize(tx: ObjectLike): CallerTransaction | undefined {
  const has = (...names: string[]): boolean => names.every((name) => typeof tx[name] === 'function');
  if (drizzleKinds(tx).includes('PgTransaction')) {
    return { dialect: 'postgres', query: drizzleQuery(tx as unknown as DrizzlePg) };
  }
  const file = sqliteOf(tx);
  if (file) return isInTransaction(file) ? { dialect: 'sqlite', query: sqliteQuery(file) } : undefined;
  if (has('getExecutor', 'withoutPlugins')) return tx.isTransaction ? ofKysely(tx as unknown as KyselyLike) : undefined;
  if (has('raw') && isObject(tx.client)) return tx.isTransaction ? ofKnex(tx as unknown as KnexLike) : undefined;
  if (has('unsafe', 'typed')) {
    return has('savepoint') ? { dialect: 'postgres', query: postgresJsQuery(tx as unknown as PostgresJs) } : undefined;
  }
  // A pool is excluded, because it would run each statement on another connection. A datasource is excluded, because it
  // has no transaction of its own.
  if (has('query') && !('totalCount' in tx) && !has('transact')) {
    return { dialect: 'postgres', mayBeIdle: true, query: pgQuery(tx as unknown as PgClient) };
  }
  return undefined;
}

/**
 * Returns the DatabaseSync of `node:sqlite` or Database of better-sqlite3, given directly or inside a drizzle object.
 */
export function sqliteOf(given: unknown): SqliteLike | undefined {
  const db = isObject(given) && isObject(given.$client) ? given.$client : given;
  const isDatabase =
    isObject(db) &&
    typeof db.prepare === 'function' &&
    [typeof db.pragma, typeof db.createSession].includes('function');
  return isDatabase ? (db as unknown as SqliteLike) : undefined;
}

function ofKnex(trx: KnexLike): CallerTransaction | undefined {
  const dialect = knexDialect(trx);
  return dialect && { dialect, query: knexQuery(trx, dialect) };
}

function ofKysely(trx: KyselyLike): CallerTransaction | undefined {
  const dialect = kyselyDialect(trx);
  return dialect && { dialect, query: kyselyQuery(trx, dialect) };
}

function forPostgres(params: readonly unknown[]): unknown[] {
  return params.map((value) => (Array.isArray(value) ? arrayLiteral(value) : (value ?? null)));
}

function forSqlite(params: readonly unknown[]): unknown[] {
  return params.map((value) => (typeof value === 'boolean' ? Number(value) : (value ?? null)));
}

function withQuestionMarks(
  text: string,
  params: readonly unknown[],
  literal: string,
): { text: string; values: unknown[] } {
  const { text: marked, order } = positional(text, literal);
  return { text: marked, values: order.map((number) => params[number - 1]) };
}

function rowsOf(result: unknown): Row[] {
  const rows = Array.isArray(result) ? result : (result as { rows?: unknown } | undefined)?.rows;
  return Array.isArray(rows) ? withOriginalNames(rows as Row[]) : [];
}

const renamedColumn = /[A-Z-]/;

/**
 * Restores our column names. Libraries can be configured to rename all columns: `workflowUuid`, `WorkflowUuid` or
 * `workflow-uuid`. None of our column names contains a capital letter or a hyphen.
 */
function withOriginalNames(rows: Row[]): Row[] {
  const [first] = rows;
  if (!first || !Object.keys(first).some((name) => renamedColumn.test(name))) return rows;
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [originalName(name), value])));
}

function originalName(name: string): string {
  return name.replace(/(?<=[a-z0-9])(?=[A-Z])|-/g, '_').toLowerCase();
}
