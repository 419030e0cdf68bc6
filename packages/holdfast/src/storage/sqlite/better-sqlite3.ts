import type Sqlite from 'better-sqlite3';
import type { Row } from '../database.js';
import { bound, type SqliteConnection, type SqliteStatement } from './connection.js';
import { positional } from './positional.js';

/** What the package better-sqlite3 exports. */
export type BetterSqlite3 = typeof Sqlite;

/** A connection by better-sqlite3, given by whoever has found it. */
export function openBetterSqlite3(library: BetterSqlite3, path: string): SqliteConnection {
  const db = new library(path);
  return {
    driver: 'better-sqlite3',
    path,
    isOpen: () => db.open,
    inTransaction: () => db.inTransaction,
    exec: (text) => void db.exec(text),
    prepare: (text) => prepare(db, text),
    close: () => void db.close(),
  };
}

function prepare(db: Sqlite.Database, given: string): SqliteStatement {
  const { text, order } = positional(given);
  const statement = db.prepare(text);
  const { reader } = statement;
  return {
    all: (params = []) => {
      const values = bound(order, params);
      if (reader) return statement.all(values) as Row[];
      statement.run(values);
      return [];
    },
  };
}
