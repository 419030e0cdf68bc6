import type { Database } from 'better-sqlite3';
import { misplacedOption, refuseOptions } from '../../../model/options.js';
import { checkDatasource, type Datasource } from '../datasource.js';
import { sqliteOf } from '../transaction.js';
import { sqliteTransactions } from './sqlite-transactions.js';

/**
 * A datasource over a Database of better-sqlite3, best one that nothing else uses: while a transaction waits for
 * something, whatever else runs on it is part of the transaction.
 */
export function betterSqlite3Datasource(db: Database): Datasource<Database>;
export function betterSqlite3Datasource(db: Database, ...more: unknown[]): Datasource<Database> {
  refuseOptions('betterSqlite3Datasource()', more);
  if (!db || sqliteOf(db) !== db) {
    throw misplacedOption('betterSqlite3Datasource()', 'db', 'must be a Database of better-sqlite3');
  }
  const place = checkDatasource('betterSqlite3Datasource()', 'sqlite', {});
  return { ...place, ...sqliteTransactions(db, db) };
}
