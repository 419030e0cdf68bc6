import { misplacedOption } from '../../../model/options.js';
import { checkDatasource, type Datasource, type DatasourceOptions, type Isolation } from '../datasource.js';
import { type DrizzlePg, drizzleKinds, drizzleQuery, sqliteOf } from '../transaction.js';
import { beginTransaction } from './begin-transaction.js';
import { attendToClients, isSingleClient } from './pool-clients.js';
import { sqliteTransactions } from './sqlite-transactions.js';

/** What `drizzle()` returns for any driver of Postgres, as far as it is used here. */
interface DrizzleOnPostgres<Tx> {
  transaction<R>(
    work: (tx: Tx) => Promise<R>,
    config?: { isolationLevel?: Isolation; accessMode?: 'read only' },
  ): Promise<R>;
  readonly execute: (query: never) => unknown;
}

/** The same for better-sqlite3 and `node:sqlite`, without their types: users of Postgres do not have them. */
interface DrizzleOnSqlite {
  readonly $client: { exec(sql: string): unknown; prepare(sql: string): object };
}

/**
 * A datasource over drizzle. On Postgres the function of a transaction gets drizzle's transaction; on SQLite,
 * where those cannot wait for anything, the database itself, in which a transaction has begun.
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
    throw misplacedOption(what, 'db', 'must be what drizzle() returned for Postgres, better-sqlite3 or node:sqlite');
  }
  if (drizzleKinds(db).includes('PgTransaction')) {
    throw misplacedOption(what, 'db', 'is a transaction of drizzle: give what drizzle() returned');
  }
  const onPostgres = db as DrizzleOnPostgres<unknown>;
  const { $client } = db as { readonly $client?: unknown };
  if (isSingleClient($client)) {
    throw misplacedOption(
      what,
      'db',
      'must not be over one Client, on which transactions that run at the same time would be one: give drizzle() a Pool',
    );
  }
  attendToClients($client);
  return {
    ...checkDatasource(what, 'postgres', options),
    transact: ({ isolation, readOnly }, work) => {
      const accessMode = readOnly ? ('read only' as const) : undefined;
      const config = { ...(isolation && { isolationLevel: isolation }), ...(accessMode && { accessMode }) };
      // An empty configuration is not nothing to the library: it would end the statement in the middle.
      const given = Object.keys(config).length > 0 ? [config] : [];
      return beginTransaction(
        work,
        (opened) => onPostgres.transaction(opened, ...given),
        () => ($client as { ending?: unknown } | undefined)?.ending === true,
      );
    },
    query: (tx, text, params) => drizzleQuery(tx as DrizzlePg)(text, params),
  };
}
