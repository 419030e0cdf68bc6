import { wrongOption } from '../../../model/options.js';
import { checkDatasource, type Datasource, type DatasourceOptions, type Isolation } from '../datasource.js';
import { type DrizzlePg, drizzleKinds, drizzleQuery, sqliteOf } from '../transaction.js';
import { beginTransaction } from './begin-transaction.js';
import { isSingleClient, listenToClientErrors } from './pool-clients.js';
import { sqliteTransactions } from './sqlite-transactions.js';

/** The part of the result of `drizzle()` that is used here, for any driver of Postgres. */
interface DrizzleOnPostgres<Tx> {
  transaction<R>(
    work: (tx: Tx) => Promise<R>,
    config?: { isolationLevel?: Isolation; accessMode?: 'read only' },
  ): Promise<R>;
  readonly execute: (query: never) => unknown;
}

/**
 * The part that is used for better-sqlite3 and `node:sqlite`. It does not use the types of these libraries, because
 * users of Postgres have not installed them.
 */
interface DrizzleOnSqlite {
  readonly $client: { exec(sql: string): unknown; prepare(sql: string): object };
}

/**
 * Creates a datasource for drizzle. On Postgres, the function of a transaction receives drizzle's transaction. On
 * SQLite, where drizzle's transactions cannot wait for a promise, the function receives the database itself, with a
 * transaction open.
 *
 * @example
 * ```ts
 * import { eq, sql } from 'drizzle-orm';
 * import { drizzle } from 'drizzle-orm/node-postgres';
 * import { transaction } from 'holdfast';
 * import { drizzleDatasource } from 'holdfast/drizzle';
 * import pg from 'pg';
 *
 * const shop = drizzleDatasource(drizzle(new pg.Pool({ connectionString: process.env.SHOP_DATABASE })));
 *
 * const debit = transaction(shop, 'debit', async (tx, account: string, cents: number) => {
 *   await tx.update(accounts).set({ cents: sql`cents - ${cents}` }).where(eq(accounts.id, account));
 * });
 * ```
 */
export function drizzleDatasource<Tx>(db: DrizzleOnPostgres<Tx>, options?: DatasourceOptions): Datasource<Tx>;
export function drizzleDatasource<Db extends DrizzleOnSqlite>(db: Db): Datasource<Db>;
export function drizzleDatasource(
  db: DrizzleOnPostgres<unknown> | DrizzleOnSqlite,
  options: DatasourceOptions = {},
): Datasource<unknown> {
  const what = 'drizzleDatasource()';
  const file = sqliteOf(db);
  if (file) return { ...checkDatasource(what, 'sqlite', options), ...sqliteTransactions(file, db) };
  if (typeof db !== 'object' || db === null || !drizzleKinds(db).includes('PgDatabase')) {
    throw wrongOption(what, 'db', 'must be the result of drizzle() for Postgres, better-sqlite3 or node:sqlite');
  }
  if (drizzleKinds(db).includes('PgTransaction')) {
    throw wrongOption(what, 'db', 'is a transaction of drizzle: pass the result of drizzle()');
  }
  const onPostgres = db as DrizzleOnPostgres<unknown>;
  const { $client } = db as { readonly $client?: unknown };
  if (isSingleClient($client)) {
    throw wrongOption(
      what,
      'db',
      'must not use a single Client, because concurrent transactions on it would be one transaction: pass a Pool to ' +
        'drizzle()',
    );
  }
  listenToClientErrors($client);
  return {
    ...checkDatasource(what, 'postgres', options),
    transact: ({ isolation, readOnly }, work) => {
      const accessMode = readOnly ? ('read only' as const) : undefined;
      const config = { ...(isolation && { isolationLevel: isolation }), ...(accessMode && { accessMode }) };
      // drizzle does not treat an empty configuration as absent: it would send an incomplete statement.
      const configs = Object.keys(config).length > 0 ? [config] : [];
      return beginTransaction(
        work,
        (opened) => onPostgres.transaction(opened, ...configs),
        () => ($client as { ending?: unknown } | undefined)?.ending === true,
      );
    },
    query: (tx, text, params) => drizzleQuery(tx as DrizzlePg)(text, params),
  };
}
