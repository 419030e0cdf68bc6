// @ts-nocheck: its types are in sqlite.d.mts
/**
 * SQLite for tests, their child processes and the benchmarks: a file of an app, read and written past everything that is
 * under test. In the manner of better-sqlite3, whatever it is made with.
 *
 * **Invariant:** a process opens a file with one copy of SQLite only. When one copy closes a file, the system drops the locks
 * that another copy of the same process holds on it, and other processes may then throw away what it commits. So this opens
 * a file as the app under test does: with node:sqlite where this Node has it, unless the URL names better-sqlite3.
 */
import { createRequire } from 'node:module';

const drivers = { 'node:sqlite': openNodeSqlite, 'better-sqlite3': openBetterSqlite3 };

/** Those that work on this Node, the default of an app first. */
export const sqliteDrivers = Object.keys(drivers).filter((driver) => works(driver));

/** Of URLs and paths. */
export function sqliteFile(database) {
  return database.replace(/^sqlite(\+[\w-]+)?:/, '');
}

export function sqliteDriver(database) {
  return database.startsWith('sqlite+better-sqlite3:') ? 'better-sqlite3' : sqliteDrivers[0];
}

/** `timeout`: how long to wait for locks. */
export function openSqlite(database, { timeout = 5_000, readonly = false } = {}) {
  const db = drivers[sqliteDriver(database)](sqliteFile(database), readonly);
  db.exec(`pragma busy_timeout = ${timeout}`);
  return Object.assign(db, { query: (text) => rowsOf(db.prepare(text)) });
}

/** Runs a statement that may have rows, or not. */
function rowsOf(statement) {
  if (statement.reader !== false) return statement.all();
  statement.run();
  return [];
}

function works(driver) {
  try {
    drivers[driver](':memory:', false).close();
    return true;
  } catch {
    return false;
  }
}

function openBetterSqlite3(file, readonly) {
  // It would end the process, rather than fail: 13 on a Node without what it is made for, 12 in its destructors on a newer one.
  const require = createRequire(import.meta.url);
  const isNew = Number.parseInt(require('better-sqlite3/package.json').version, 10) >= 13;
  const [major] = process.versions.node.split('.').map(Number);
  if (isNew ? Number(process.versions.napi) < 10 : major >= 24) throw new Error('not for this Node');
  return new (require('better-sqlite3'))(file, { readonly });
}

/** What users give to sqliteDatasource(). */
export function openDatabaseSync(database, { timeout = 5_000, readonly = false, returnArrays = false } = {}) {
  const { DatabaseSync } = quietly(() => process.getBuiltinModule('node:sqlite'));
  const db = new DatabaseSync(sqliteFile(database), { readOnly: readonly, returnArrays });
  db.exec(`pragma busy_timeout = ${timeout}`);
  return db;
}

function openNodeSqlite(file, readonly) {
  const db = openDatabaseSync(file, { readonly });
  const exec = (text) => void db.exec(text);
  let open = true;
  return {
    exec,
    prepare: (text) => statementOf(db.prepare(text)),
    pragma: (text, { simple = false } = {}) => {
      const rows = statementOf(db.prepare(`pragma ${text}`)).all();
      return simple ? Object.values(rows[0] ?? {})[0] : rows;
    },
    get inTransaction() {
      return db.isTransaction ?? isInTransaction(exec);
    },
    get open() {
      return open;
    },
    close: () => {
      open = false;
      db.close();
    },
  };
}

/** Node 22.13 has no word for it. */
function isInTransaction(exec) {
  try {
    exec('begin; rollback');
    return false;
  } catch {
    return true;
  }
}

function statementOf(statement, plucked = false) {
  statement.setAllowUnknownNamedParameters?.(true);
  const given = (row) => row && (plucked ? Object.values(row)[0] : { ...row });
  return {
    all: (...values) => statement.all(...values.map(bound)).map(given),
    get: (...values) => given(statement.get(...values.map(bound))),
    run: (...values) => statement.run(...values.map(bound)),
    pluck: () => statementOf(statement, true),
  };
}

/** `$1` has the name `1` to the one library and `$1` to the other. */
function bound(value) {
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [`$${name}`, each]));
}

/** Node 22 warns of it; tests look at what processes say. */
function quietly(load) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}
