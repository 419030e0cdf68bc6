import { refuseOptions, wrongOption } from '../../../model/options.js';
import { checkDatasource, type Datasource } from '../datasource.js';
import { sqliteOf } from '../transaction.js';
import { sqliteTransactions } from './sqlite-transactions.js';

/** The part of a DatabaseSync of `node:sqlite` that is used here. The types of Node 20 do not contain this class. */
export interface NodeSqliteDatabase {
  exec(sql: string): void;
  prepare(sql: string): object;
  close(): void;
  createSession(): unknown;
}

/**
 * Creates a datasource for a DatabaseSync of `node:sqlite`. Use a DatabaseSync that nothing else uses: while a
 * transaction waits, every other statement on the same DatabaseSync is part of the transaction. The function of a
 * transaction receives the DatabaseSync.
 *
 * @example
 * ```ts
 * import { DatabaseSync } from 'node:sqlite';
 * import { transaction } from 'holdfast';
 * import { sqliteDatasource } from 'holdfast/sqlite';
 *
 * const shop = sqliteDatasource(new DatabaseSync('shop.sqlite'));
 *
 * const debit = transaction(shop, 'debit', (db, account: string, cents: number) => {
 *   db.prepare('update accounts set cents = cents - ? where id = ?').run(cents, account);
 * });
 * ```
 */
export function sqliteDatasource<Db extends NodeSqliteDatabase>(db: Db): Datasource<Db>;
export function sqliteDatasource<Db extends NodeSqliteDatabase>(db: Db, ...others: unknown[]): Datasource<Db> {
  refuseOptions('sqliteDatasource()', others);
  const file = sqliteOf(db);
  if (!db || !file || file !== (db as unknown) || 'pragma' in db) {
    throw wrongOption('sqliteDatasource()', 'db', 'must be a DatabaseSync of node:sqlite');
  }
  return { ...checkDatasource('sqliteDatasource()', 'sqlite', {}), ...sqliteTransactions(file, db) };
}
