import { misplacedOption } from '../../model/options.js';
import type { Row } from '../database.js';
import { arrayLiteral } from '../postgres/array-literal.js';
import { bound, isInTransaction, withNumbers } from '../sqlite/connection.js';
import { positional } from '../sqlite/positional.js';

/**
 * A transaction that belongs to the caller, and in which statements of ours run. Its library is told by the shape of what
 * the caller has in hand, so that none has to be installed, or imported, by those who use another.
 */
export interface CallerTransaction {
  readonly dialect: 'postgres' | 'sqlite';
  /** Whether a transaction has begun cannot be told by its shape. */
  readonly mayBeIdle?: true;
  /** One statement, with `$1`, `$2` and so on for parameters. Resolves with the rows. */
  query(text: string, params: readonly unknown[]): Promise<Row[]>;
}

/** What is to be done in it: each takes rights of its own. */
export type Purpose = 'record a step' | 'start a workflow' | 'send a message';

type Query = CallerTransaction['query'];

/** What the functions below ask of each library. */
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
/** A Database of better-sqlite3, or a DatabaseSync of `node:sqlite`: each says in words of its own whether a transaction is open. */
export interface SqliteLike {
  exec(text: string): unknown;
  prepare(text: string): {
    /** Only `node:sqlite` knows no such thing, and runs whatever it is given. */
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

/** Texts are sent as texts: the library would make JSON of one that is cast to JSON, for a second time. */
export function postgresJsQuery(sql: PostgresJs): Query {
  return async (text, params) => {
    const values = forPostgres(params).map((value) => (typeof value === 'string' ? sql.typed(value, textOid) : value));
    return rowsOf(await sql.unsafe(text, values as never[]));
  };
}

export function knexQuery(trx: KnexLike, dialect: CallerTransaction['dialect']): Query {
  return async (text, params) => {
    const bound = dialect === 'postgres' ? forPostgres(params) : forSqlite(params);
    const { text: positional, values } = withQuestionMarks(text, bound, '\\?');
    return rowsOf(await trx.raw(positional, values as never[]));
  };
}

/** Without the plugins, which may give columns other names. */
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

/** What the library asks of a query is that it can be turned into text and parameters: ours is that already. */
export function drizzleQuery(tx: DrizzlePg): Query {
  return async (text, params) => {
    const query = { getSQL: () => query, toQuery: () => ({ sql: text, params: forPostgres(params) }) };
    return rowsOf(await tx.execute(query as never));
  };
}

export function sqliteQuery(db: SqliteLike): Query {
  return async (text, params) => sqliteRows(db, text, params);
}

/** In the form that our statements take their rows in, whatever the connection was told to give. */
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

/** Undefined: a database of no kind that statements of ours run on. */
export function knexDialect(knex: KnexLike): CallerTransaction['dialect'] | undefined {
  const { dialect } = knex.client;
  return dialect === 'postgresql' ? 'postgres' : dialect === 'sqlite3' ? 'sqlite' : undefined;
}

/** Told by what each database can do, which is what the library's adapters say of it. */
export function kyselyDialect(db: KyselyLike): CallerTransaction['dialect'] | undefined {
  const { supportsReturning, supportsTransactionalDdl } = db.getExecutor().adapter;
  if (!supportsReturning) return undefined;
  return supportsTransactionalDdl ? 'postgres' : 'sqlite';
}

/** The kinds that an object of drizzle says it is, its own first. */
export function drizzleKinds(given: object): string[] {
  const kinds: string[] = [];
  for (let type = given.constructor; typeof type === 'function'; type = Object.getPrototypeOf(type)) {
    const kind: unknown = Object.getOwnPropertyDescriptor(type, Symbol.for('drizzle:entityKind'))?.value;
    if (typeof kind === 'string') kinds.push(kind);
  }
  return kinds;
}

/** The transaction that a caller has open, or a typed error that lists what is understood. */
export function callerTransaction(what: string, tx: unknown): CallerTransaction {
  const found = isThing(tx) ? recognise(tx) : undefined;
  if (found) return found;
  // Not shown: it may hold the password of its connection.
  throw misplacedOption(
    what,
    'tx',
    'must be an open transaction: a client of pg, the sql that begin() of postgres.js gives, a transaction of knex, kysely ' +
      'or drizzle, or (on SQLite) a DatabaseSync of node:sqlite or a Database of better-sqlite3 in which one has begun, or drizzle over it',
  );
}

type Thing = object & Record<string, unknown>;

function isThing(tx: unknown): tx is Thing {
  return (typeof tx === 'object' && tx !== null) || typeof tx === 'function';
}

function recognise(tx: Thing): CallerTransaction | undefined {
  const has = (...names: string[]): boolean => names.every((name) => typeof tx[name] === 'function');
  if (drizzleKinds(tx).includes('PgTransaction')) {
    return { dialect: 'postgres', query: drizzleQuery(tx as unknown as DrizzlePg) };
  }
  const file = sqliteOf(tx);
  if (file) return isInTransaction(file) ? { dialect: 'sqlite', query: sqliteQuery(file) } : undefined;
  if (has('getExecutor', 'withoutPlugins')) return tx.isTransaction ? ofKysely(tx as unknown as KyselyLike) : undefined;
  if (has('raw') && isThing(tx.client)) return tx.isTransaction ? ofKnex(tx as unknown as KnexLike) : undefined;
  if (has('unsafe', 'typed')) {
    return has('savepoint') ? { dialect: 'postgres', query: postgresJsQuery(tx as unknown as PostgresJs) } : undefined;
  }
  // A pool would run each statement on another connection; a datasource has no transaction of its own.
  if (has('query') && !('totalCount' in tx) && !has('transact')) {
    return { dialect: 'postgres', mayBeIdle: true, query: pgQuery(tx as unknown as PgClient) };
  }
  return undefined;
}

/** A DatabaseSync of `node:sqlite` or a Database of better-sqlite3, also as drizzle carries it. */
export function sqliteOf(given: unknown): SqliteLike | undefined {
  const db = isThing(given) && isThing(given.$client) ? given.$client : given;
  const isDatabase =
    isThing(db) && typeof db.prepare === 'function' && [typeof db.pragma, typeof db.createSession].includes('function');
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
  return Array.isArray(rows) ? withOwnNames(rows as Row[]) : [];
}

const foreignName = /[A-Z-]/;

/**
 * Libraries can be told to give all columns other names: `workflowUuid`, `WorkflowUuid` or `workflow-uuid`. None of ours
 * has a capital or a hyphen in it.
 */
function withOwnNames(rows: Row[]): Row[] {
  const [first] = rows;
  if (!first || !Object.keys(first).some((name) => foreignName.test(name))) return rows;
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [ownName(name), value])));
}

function ownName(name: string): string {
  return name.replace(/(?<=[a-z0-9])(?=[A-Z])|-/g, '_').toLowerCase();
}
