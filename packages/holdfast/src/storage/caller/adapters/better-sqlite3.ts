import type { Database } from 'better-sqlite3';
import { refuseOptions, wrongOption } from '../../../model/options.js';
import { checkDatasource, type Datasource } from '../datasource.js';
import { sqliteOf } from '../transaction.js';
import { sqliteTransactions } from './sqlite-transactions.js';

/**
 * Creates a datasource for a Database of better-sqlite3. Use a Database that nothing else uses: while a transaction
 * waits, every other statement on the same Database is part of the transaction. The function of a transaction receives
 * the Database.
 *
 * @example
 * ```ts
 * import Database from 'better-sqlite3';
 * import { transaction } from 'holdfast';
 * import { betterSqlite3Datasource } from 'holdfast/better-sqlite3';
 *
 * const shop = betterSqlite3Datasource(new Database('shop.sqlite'));
 *
 * const debit = transaction(shop, 'debit', (db, account: string, cents: number) => {
 *   db.prepare('update accounts set cents = cents - ? where id = ?').run(cents, account);
 * });
 * ```
 */
export function betterSqlite3Datasource(db: Database): Datasource<Database>;
export function betterSqlite3Datasource(db: Database, ...others: unknown[]): Datasource<Database> {
  refuseOptions('betterSqlite3Datasource()', others);
  if (!db || sqliteOf(db) !== db) {
    throw wrongOption('betterSqlite3Datasource()', 'db', 'must be a Database of better-sqlite3');
  }
  const settings = checkDatasource('betterSqlite3Datasource()', 'sqlite', {});
  return { ...settings, ...sqliteTransactions(db, db) };
}
