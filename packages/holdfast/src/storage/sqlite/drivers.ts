import { HoldfastError } from '../../model/errors.js';
import { howToBuildSqlite, howToInstallSqlite } from '../install-advice.js';
import { type BetterSqlite3, fittingMajor, openBetterSqlite3, requiredMajor } from './better-sqlite3.js';
import type { LoadedDriver, SqliteConnection, SqliteDriver } from './connection.js';
import { findNodeSqlite, openNodeSqlite } from './node-sqlite.js';

/**
 * Chooses the library that opens a SQLite file: the SQLite of this Node, or better-sqlite3 if this Node has none or if
 * the caller asks for it.
 */
export async function loadDriver(requested?: SqliteDriver): Promise<LoadedDriver> {
  const builtIn = requested === 'better-sqlite3' ? undefined : findNodeSqlite();
  if (builtIn) return { name: 'node:sqlite', open: (path) => openNodeSqlite(builtIn, path) };
  const library = await importBetterSqlite3(requested !== undefined);
  const open = (path: string): SqliteConnection => {
    try {
      return openBetterSqlite3(library, path);
    } catch (cause) {
      throw isWithoutBinary(cause) ? withoutBinary(cause) : cause;
    }
  };
  return { name: 'better-sqlite3', open };
}

/** The import does not use a literal, because bundlers would then require a package that most users do not have. */
const packageName: string = 'better-sqlite3';

async function importBetterSqlite3(isRequested: boolean): Promise<BetterSqlite3> {
  const { default: library } = await import(/* webpackIgnore: true */ /* @vite-ignore */ packageName).catch((cause) => {
    throw notInstalled(isRequested, cause);
  });
  const needed = requiredMajor(library);
  if (needed === undefined) return library;
  throw driverMissing(
    `The installed version of better-sqlite3 does not fit Node ${process.version} and would crash this process ` +
      `sooner or later. Version ${needed} fits. ${howToInstallSqlite(needed)}`,
  );
}

function notInstalled(isRequested: boolean, cause: unknown): HoldfastError {
  const why = isRequested
    ? 'The URL asks for better-sqlite3, which is not installed.'
    : `Node ${process.version} has no built-in SQLite (Node 22.13 and newer do), and better-sqlite3 is not installed.`;
  const alternative = isRequested
    ? ' Or write "sqlite:" instead of "sqlite+better-sqlite3:" to use the built-in SQLite of Node 22.13 and newer.'
    : '';
  return driverMissing(`${why} ${howToInstallSqlite(fittingMajor())}${alternative}`, cause);
}

/**
 * Returns true if the binary of better-sqlite3 is missing or does not fit. Version 12 has no binary if its install
 * script did not run; the error then lists the searched places in `tries`.
 */
function isWithoutBinary(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  return 'tries' in error || ('code' in error && error.code === 'ERR_DLOPEN_FAILED');
}

function withoutBinary(cause: unknown): HoldfastError {
  return driverMissing(
    'The compiled part of better-sqlite3 is missing, or was built for another version of Node than ' +
      `${process.version}. ${howToBuildSqlite()}`,
    cause,
  );
}

function driverMissing(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError('DRIVER_MISSING', message, { cause });
}
