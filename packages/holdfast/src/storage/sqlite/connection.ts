import type { Row } from '../database.js';

/**
 * One connection to a SQLite file, whichever library it is made with: all that Holdfast needs of one. It is synchronous, as
 * the libraries are. Parameters are `$1`, `$2` and so on.
 *
 * The contract suite runs on each driver; what a driver does differently (numbers, codes, rows) ends here.
 */
export interface SqliteConnection {
  readonly driver: SqliteDriver;
  /** A file, or `:memory:`. */
  readonly path: string;
  isOpen(): boolean;
  inTransaction(): boolean;
  /** Any number of statements without parameters. */
  exec(text: string): void;
  prepare(text: string): SqliteStatement;
  close(): void;
}

export interface SqliteStatement {
  /** Runs it to its end, and gives its rows: none, if it is not one that has rows. */
  all(params?: readonly unknown[]): Row[];
}

/** A library that is there, and fits this Node. */
export interface LoadedDriver {
  readonly name: SqliteDriver;
  open(path: string): SqliteConnection;
}

export type SqliteDriver = 'node:sqlite' | 'better-sqlite3';

/** The value of the first column, for a statement of one row. */
export function scalar(db: SqliteConnection, text: string, params?: readonly unknown[]): unknown {
  return column(db, text, params)[0];
}

/** The first column of all rows. */
export function column(db: SqliteConnection, text: string, params?: readonly unknown[]): unknown[] {
  const rows = db.prepare(text).all(params);
  return rows.map((row) => Object.values(row)[0]);
}

/** `begin immediate` for what may write: a deferred transaction that turns from reading to writing fails with BUSY at once. */
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
 * Whether a transaction is open on a connection: the libraries have words of their own for it, and Node 22.13 has none. There,
 * no transaction begins within another.
 */
export function isInTransaction(db: {
  exec(text: string): unknown;
  readonly inTransaction?: boolean;
  readonly isTransaction?: boolean;
}): boolean {
  const said = db.inTransaction ?? db.isTransaction;
  if (said !== undefined) return said;
  try {
    db.exec('begin');
  } catch {
    return true;
  }
  db.exec('rollback');
  return false;
}

/** The values for the places of a statement, in forms that SQLite knows. */
export function bound(order: readonly number[], params: readonly unknown[]): unknown[] {
  return order.map((number) => toSqlite(params[number - 1]));
}

/** Whole numbers that came as BigInt, to the nearest that JavaScript has, as better-sqlite3 gives them. */
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
  if (typeof value === 'string') return withoutNul(value);
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) {
    // A driver would take it for a list of named parameters.
    throw new TypeError('SQLite can store numbers, texts and bytes, and no other objects.');
  }
  return value === undefined ? null : value;
}

/**
 * SQLite keeps a text with a NUL, but its functions, and drivers that read it, end it there: what is read would be another
 * value than was written. Refused as Postgres refuses it.
 */
function withoutNul(text: string): string {
  if (text.includes('\0')) throw new RangeError('A text with a NUL character (U+0000) cannot be stored in SQLite.');
  return text;
}
