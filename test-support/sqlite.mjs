// @ts-nocheck: the types are in sqlite.d.mts
/**
 * SQLite for tests, their child processes and the benchmarks. It reads and writes the file of an app directly, without
 * the code under test. Its interface is that of better-sqlite3, with either driver.
 *
 * **Invariant:** a process opens a file with only one copy of SQLite. When one copy closes a file, the system drops the
 * locks that another copy in the same process holds on the file. Other processes may then discard what that copy
 * commits. Therefore this module opens a file with the driver of the app under test: node:sqlite if this Node has it,
 * unless the URL names better-sqlite3.
 */
import { createRequire } from 'node:module';

const drivers = { 'node:sqlite': openNodeSqlite, 'better-sqlite3': openBetterSqlite3 };

/** The drivers that work on this Node. The first one is the default of an app. */
export const sqliteDrivers = Object.keys(drivers).filter((driver) => works(driver));

/** Returns the path of the file. `database` is a URL or a path. */
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

/** Runs a statement, and returns its rows, if any. */
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
  // On the wrong Node, better-sqlite3 ends the process instead of throwing: version 13 on a Node without Node-API 10,
  // version 12 in its destructors on Node 24 and newer.
  const require = createRequire(import.meta.url);
  const isNew = Number.parseInt(require('better-sqlite3/package.json').version, 10) >= 13;
  const [major] = process.versions.node.split('.').map(Number);
  if (isNew ? Number(process.versions.napi) < 10 : major >= 24) throw new Error('not for this Node');
  return new (require('better-sqlite3'))(file, { readonly });
}

/** Opens a DatabaseSync, which users pass to sqliteDatasource(). */
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

/** Node 22.13 has no `isTransaction`. */
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

/** better-sqlite3 names the parameter `$1` as `1`, node:sqlite as `$1`. */
function bound(value) {
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [`$${name}`, each]));
}

/** Suppresses Node 22's warning about node:sqlite, because tests check the output of processes. */
function quietly(load) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}
