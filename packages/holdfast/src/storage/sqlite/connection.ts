import type { Row } from '../database.js';

/**
 * One connection to a SQLite file, with any of the libraries: everything that Holdfast needs from a connection. The
 * connection is synchronous, like the libraries. Parameters are `$1`, `$2` and so on.
 *
 * The contract suite runs on each driver. Differences between the drivers (numbers, codes, rows) are hidden here.
 */
export interface SqliteConnection {
  readonly driver: SqliteDriver;
  /** A file, or `:memory:`. */
  readonly path: string;
  isOpen(): boolean;
  inTransaction(): boolean;
  /** Runs any number of statements without parameters. */
  exec(text: string): void;
  prepare(text: string): SqliteStatement;
  close(): void;
}

export interface SqliteStatement {
  /** Runs the statement to its end and returns its rows. Returns an empty list for a statement without rows. */
  all(params?: readonly unknown[]): Row[];
}

/** A library that is installed and fits this Node. */
export interface LoadedDriver {
  readonly name: SqliteDriver;
  open(path: string): SqliteConnection;
}

export type SqliteDriver = 'node:sqlite' | 'better-sqlite3';

/** Returns the value of the first column, for a statement with one row. */
export function scalar(db: SqliteConnection, text: string, params?: readonly unknown[]): unknown {
  return column(db, text, params)[0];
}

/** Returns the first column of all rows. */
export function column(db: SqliteConnection, text: string, params?: readonly unknown[]): unknown[] {
  const rows = db.prepare(text).all(params);
  return rows.map((row) => Object.values(row)[0]);
}

/**
 * Runs `work` in a transaction. Use `begin immediate` for a transaction that may write: a deferred transaction that
 * changes from reading to writing fails with BUSY at once.
 */
export function transact<R>(db: SqliteConnection, begin: 'begin' | 'begin immediate', work: () => R): R {
  db.exec(begin);
  try {
    const result = work();
    db.exec('commit');
    return result;
  } catch (error) {
    if (db.inTransaction()) db.exec('rollback');
    throw error;
  }
}

/**
 * Returns true if a transaction is open on a connection. The libraries have different properties for this, and Node
 * 22.13 has none. On that Node this function tries `begin`, which fails inside a transaction.
 */
export function isInTransaction(db: {
  exec(text: string): unknown;
  readonly inTransaction?: boolean;
  readonly isTransaction?: boolean;
}): boolean {
  const reported = db.inTransaction ?? db.isTransaction;
  if (reported !== undefined) return reported;
  try {
    db.exec('begin');
  } catch {
    return true;
  }
  db.exec('rollback');
  return false;
}

/** Returns the values for the placeholders of a statement, converted to types that SQLite knows. */
export function bound(order: readonly number[], params: readonly unknown[]): unknown[] {
  return order.map((number) => toSqlite(params[number - 1]));
}

/** Converts BigInt values to the nearest JavaScript numbers, as better-sqlite3 does. */
export function withNumbers(rows: Row[]): Row[] {
  for (const row of rows) {
    for (const name in row) {
      const value = row[name];
      if (typeof value === 'bigint') row[name] = Number(value);
    }
  }
  return rows;
}

function toSqlite(value: unknown): unknown {
  if (typeof value === 'string') return refuseNul(value);
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) {
    // A driver would treat the object as a list of named parameters.
    throw new TypeError('SQLite can store numbers, strings and bytes, but no other objects.');
  }
  return value === undefined ? null : value;
}

/**
 * Rejects a text with a NUL, as Postgres does. SQLite stores such a text, but its functions and some drivers end the
 * text at the NUL. The value that is read would then differ from the value that was written.
 */
function refuseNul(text: string): string {
  if (text.includes('\0')) throw new RangeError('A text with a NUL character (U+0000) cannot be stored in SQLite.');
  return text;
}
