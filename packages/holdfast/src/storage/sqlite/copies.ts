import { existsSync, realpathSync } from 'node:fs';
import { HoldfastError } from '../../model/errors.js';
import { processWide } from '../../model/process-wide.js';
import type { LoadedDriver, SqliteConnection } from './connection.js';

/**
 * **Invariant:** this process opens a file with one copy of SQLite only (`node:sqlite` and better-sqlite3 are two
 * copies).
 *
 * The locks on a file belong to the process. When one copy closes the file, the operating system also drops the locks
 * of the other copy. The next process that opens and closes the file then believes that it is the last one and removes
 * the write-ahead log. From then on, this process commits to a log that no other process reads. Copies do not know
 * about each other, so SQLite cannot prevent this.
 */

/** Distinguishes copies of SQLite by their source and their compile options. */
export const copyIdentity =
  "select sqlite_source_id() || ' ' || (select group_concat(compile_options) from pragma_compile_options) as copy";

/** The files that Holdfast itself has open in this process, with their connections. */
const connections = processWide('sqliteFiles', () => new Map<string, SqliteConnection[]>());

/**
 * Opens a file, unless another driver has it open. Even opening and closing the file once with another driver would do
 * harm.
 */
export function openExclusively(driver: LoadedDriver, path: string): SqliteConnection {
  const file = pathOf(path);
  const other = connectionsTo(file).find((each) => each.driver !== driver.name);
  if (file !== undefined && other) {
    throw mixedCopiesError(file, `one app or client uses ${other.driver}, another uses ${driver.name}`);
  }
  const db = driver.open(path);
  const created = file ?? pathOf(path);
  if (created !== undefined) connections.set(created, [...connectionsTo(created), db]);
  return db;
}

function connectionsTo(file: string | undefined): SqliteConnection[] {
  return (file === undefined ? [] : (connections.get(file) ?? [])).filter((each) => each.isOpen());
}

/** Undefined: the file does not exist, or the database is in memory. */
function pathOf(path: string): string | undefined {
  return existsSync(path) ? realpathSync(path) : undefined;
}

export function mixedCopiesError(path: string, which: string): HoldfastError {
  return new HoldfastError(
    'SQLITE_COPIES',
    `This process would open ${path} with two copies of SQLite: ${which}. When one copy closes the file, the locks ` +
      'of the other copy are lost, and another process can discard committed data. Use one copy only: if your own ' +
      'code uses better-sqlite3, open the database of Holdfast as "sqlite+better-sqlite3:..."; if it uses ' +
      'node:sqlite, open it as "sqlite:..." and use sqliteDatasource(). Or keep your own data in another file.',
    { details: { path } },
  );
}
