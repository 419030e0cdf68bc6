import type Sqlite from 'better-sqlite3';
import type { Row } from '../database.js';
import { bound, type SqliteConnection, type SqliteStatement } from './connection.js';
import { positional } from './positional.js';

/** What the package better-sqlite3 exports. */
export type BetterSqlite3 = typeof Sqlite;

/**
 * The major version that another one must be replaced by on this Node: the wrong one does not fail, it ends the process. 13
 * does so when its compiled part is loaded without Node-API 10, which came with 22.14, and 12 when Node 24 collects one of its
 * statements. Undefined: it fits.
 */
export function neededInstead(
  library: Pick<BetterSqlite3, 'prototype'>,
  versions = process.versions,
): number | undefined {
  // Its code is loaded by now, and its compiled part is not. `explain` came with 13.
  const found = 'explain' in library.prototype ? 13 : 12;
  const fitting = fittingMajor(versions);
  const fits = found === fitting || (found === 12 && Number.parseInt(versions.node, 10) < 24);
  return fits ? undefined : fitting;
}

/** The major version to install for this Node. */
export function fittingMajor(versions = process.versions): number {
  return Number(versions.napi) >= 10 ? 13 : 12;
}

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
