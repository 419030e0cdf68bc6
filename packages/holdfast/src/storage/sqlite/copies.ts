import { existsSync, realpathSync } from 'node:fs';
import { HoldfastError } from '../../model/errors.js';
import { processWide } from '../../model/process-wide.js';
import type { LoadedDriver, SqliteConnection } from './connection.js';

/**
 * **Invariant:** this process has a file open with one copy of SQLite only (`node:sqlite` and better-sqlite3 are two).
 *
 * The locks on a file belong to the process. When one copy closes the file, the system drops those of the other as well, and
 * the next process that comes and goes takes itself for the last one: it removes the write-ahead log, and what this process
 * commits from then on goes to a log that nobody will read. Copies know nothing of each other, so that SQLite cannot prevent it.
 */

/** Tells copies apart: which source, compiled how. */
export const copyIdentity =
  "select sqlite_source_id() || ' ' || (select group_concat(compile_options) from pragma_compile_options) as copy";

/** Files that Holdfast itself has open here, by the driver. */
const open = processWide('sqliteFiles', () => new Map<string, SqliteConnection[]>());

/** Opens a file, unless the other driver has it open: even to open and close it once more would do the harm. */
export function openAlone(driver: LoadedDriver, path: string): SqliteConnection {
  const file = pathOf(path);
  const other = connectionsTo(file).find((each) => each.driver !== driver.name);
  if (file !== undefined && other) {
    throw copiesMixed(file, `one app or client takes ${other.driver}, another one ${driver.name}`);
  }
  const db = driver.open(path);
  const created = file ?? pathOf(path);
  if (created !== undefined) open.set(created, [...connectionsTo(created), db]);
  return db;
}

function connectionsTo(file: string | undefined): SqliteConnection[] {
  return (file === undefined ? [] : (open.get(file) ?? [])).filter((each) => each.isOpen());
}

/** Undefined: it is not there, or in memory. */
function pathOf(path: string): string | undefined {
  return existsSync(path) ? realpathSync(path) : undefined;
}

export function copiesMixed(path: string, which: string): HoldfastError {
  return new HoldfastError(
    'SQLITE_COPIES',
    `This process would have ${path} open with two copies of SQLite: ${which}. The locks of one are lost when the other closes ` +
      'the file, and another process can then throw away what was committed. Use one of them: "sqlite+better-sqlite3:..." as ' +
      'the database of Holdfast if the rest is on better-sqlite3, "sqlite:..." and sqliteDatasource() if it is on node:sqlite. ' +
      'Or keep your own data in another file.',
    { details: { path } },
  );
}
