import { misplacedOption, refuseOptions } from '../../../model/options.js';
import { checkDatasource, type Datasource } from '../datasource.js';
import { sqliteOf } from '../transaction.js';
import { sqliteTransactions } from './sqlite-transactions.js';

/** A DatabaseSync of `node:sqlite`, as far as it is used here: the types of Node 20 do not know it. */
export interface NodeSqliteDatabase {
  exec(sql: string): void;
  prepare(sql: string): object;
  close(): void;
  createSession(): unknown;
}

/**
 * A datasource over a DatabaseSync of `node:sqlite`, best one that nothing else uses: while a transaction waits for
 * something, whatever else runs on it is part of the transaction.
 */
export function sqliteDatasource<Db extends NodeSqliteDatabase>(db: Db): Datasource<Db>;
export function sqliteDatasource<Db extends NodeSqliteDatabase>(db: Db, ...more: unknown[]): Datasource<Db> {
  refuseOptions('sqliteDatasource()', more);
  const file = sqliteOf(db);
  if (!db || !file || file !== (db as unknown) || 'pragma' in db) {
    throw misplacedOption('sqliteDatasource()', 'db', 'must be a DatabaseSync of node:sqlite');
  }
  return { ...checkDatasource('sqliteDatasource()', 'sqlite', {}), ...sqliteTransactions(file, db) };
}
