import { HoldfastError } from '../../model/errors.js';
import { howToBuildSqlite, howToInstallSqlite } from '../install-advice.js';
import { type BetterSqlite3, fittingMajor, neededInstead, openBetterSqlite3 } from './better-sqlite3.js';
import type { LoadedDriver, SqliteConnection, SqliteDriver } from './connection.js';
import { findNodeSqlite, openNodeSqlite } from './node-sqlite.js';

/**
 * Which library a SQLite file is opened with: the SQLite that Node brings, and better-sqlite3 where Node has none, or where
 * it is asked for.
 */
export async function loadDriver(asked?: SqliteDriver): Promise<LoadedDriver> {
  const builtIn = asked === 'better-sqlite3' ? undefined : findNodeSqlite();
  if (builtIn) return { name: 'node:sqlite', open: (path) => openNodeSqlite(builtIn, path) };
  const library = await importBetterSqlite3(asked !== undefined);
  const open = (path: string): SqliteConnection => {
    try {
      return openBetterSqlite3(library, path);
    } catch (cause) {
      throw isUnbuilt(cause) ? unbuilt(cause) : cause;
    }
  };
  return { name: 'better-sqlite3', open };
}

/** Not written out, because bundlers would insist on a package that most users do not have. */
const packageName: string = 'better-sqlite3';

async function importBetterSqlite3(isAsked: boolean): Promise<BetterSqlite3> {
  const { default: library } = await import(/* webpackIgnore: true */ /* @vite-ignore */ packageName).catch((cause) => {
    throw absent(isAsked, cause);
  });
  const needed = neededInstead(library);
  if (needed === undefined) return library;
  throw driverMissing(
    `The installed better-sqlite3 would end this process, sooner or later: Node ${process.version} takes version ${needed} of it. ` +
      howToInstallSqlite(needed),
  );
}

function absent(isAsked: boolean, cause: unknown): HoldfastError {
  const why = isAsked
    ? 'The URL asks for better-sqlite3, which is not installed.'
    : `Node ${process.version} has no SQLite of its own (22.13 and newer have), and better-sqlite3 is not installed.`;
  const way = isAsked
    ? ' Or write sqlite: instead of sqlite+better-sqlite3:, for the SQLite of Node 22.13 and newer.'
    : '';
  return driverMissing(`${why} ${howToInstallSqlite(fittingMajor())}${way}`, cause);
}

/** Without its install script version 12 has no binary (`tries` are the places that were searched for it). */
function isUnbuilt(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  return 'tries' in error || ('code' in error && error.code === 'ERR_DLOPEN_FAILED');
}

function unbuilt(cause: unknown): HoldfastError {
  return driverMissing(
    `The compiled part of better-sqlite3 is missing, or was built for another Node than ${process.version}. ${howToBuildSqlite()}`,
    cause,
  );
}

function driverMissing(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError('DRIVER_MISSING', message, { cause });
}
