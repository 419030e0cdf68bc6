import type Sqlite from 'better-sqlite3';
import type { Row } from '../database.js';
import { bound, type SqliteConnection, type SqliteStatement } from './connection.js';
import { positional } from './positional.js';

/** The export of the package better-sqlite3. */
export type BetterSqlite3 = typeof Sqlite;

/**
 * Returns the major version that must replace the installed one on this Node, or undefined if the installed version
 * fits. A wrong version does not fail with an error but ends the process. Version 13 does so when its compiled part is
 * loaded without Node-API 10, which came with Node 22.14. Version 12 does so when Node 24 garbage-collects one of its
 * statements.
 */
export function requiredMajor(
  library: Pick<BetterSqlite3, 'prototype'>,
  versions = process.versions,
): number | undefined {
  // The JavaScript code of the package is loaded at this point, but its compiled part is not. `explain` came with
  // version 13.
  const found = 'explain' in library.prototype ? 13 : 12;
  const fitting = fittingMajor(versions);
  const fits = found === fitting || (found === 12 && Number.parseInt(versions.node, 10) < 24);
  return fits ? undefined : fitting;
}

/** Returns the major version to install for this Node. */
export function fittingMajor(versions = process.versions): number {
  return Number(versions.napi) >= 10 ? 13 : 12;
}

/** Opens a connection with better-sqlite3. The caller passes the loaded library. */
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
