/** Returns true if the error has a code of one of these kinds: `SQLITE_BUSY` includes `SQLITE_BUSY_SNAPSHOT`. */
export function isSqlite(error: unknown, ...kinds: readonly string[]): boolean {
  const code = sqliteCode(error);
  return kinds.some((kind) => code === kind || code.startsWith(`${kind}_`));
}

/**
 * Returns SQLite's name for an error of a driver, such as `SQLITE_BUSY`, or an empty text if the error does not come
 * from SQLite.
 */
export function sqliteCode(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown };
  if (code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number') return nameOf(errcode);
  return typeof code === 'string' && code.startsWith('SQLITE_') ? code : '';
}

/** `node:sqlite` reports only the number. Its low byte is the kind; the higher bytes are the detail, counted from 1. */
function nameOf(errcode: number): string {
  const kind = kinds[errcode & 255];
  if (kind === undefined) return `SQLITE_${errcode}`;
  const detail = details[kind]?.[(errcode >> 8) - 1];
  return detail === undefined ? `SQLITE_${kind}` : `SQLITE_${kind}_${detail}`;
}

const kinds = (
  'OK ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL ' +
  'EMPTY SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB'
).split(' ');

const details: Readonly<Record<string, readonly string[]>> = {
  BUSY: ['RECOVERY', 'SNAPSHOT', 'TIMEOUT'],
  LOCKED: ['SHAREDCACHE', 'VTAB'],
  READONLY: ['RECOVERY', 'CANTLOCK', 'ROLLBACK', 'DBMOVED', 'CANTINIT', 'DIRECTORY'],
  CANTOPEN: ['NOTEMPDIR', 'ISDIR', 'FULLPATH', 'CONVPATH', 'DIRTYWAL', 'SYMLINK'],
  CONSTRAINT: 'CHECK COMMITHOOK FOREIGNKEY FUNCTION NOTNULL PRIMARYKEY TRIGGER UNIQUE VTAB ROWID PINNED DATATYPE'.split(
    ' ',
  ),
  IOERR: (
    'READ SHORT_READ WRITE FSYNC DIR_FSYNC TRUNCATE FSTAT UNLOCK RDLOCK DELETE BLOCKED NOMEM ACCESS ' +
    'CHECKRESERVEDLOCK LOCK CLOSE DIR_CLOSE SHMOPEN SHMSIZE SHMLOCK SHMMAP SEEK DELETE_NOENT MMAP GETTEMPPATH ' +
    'CONVPATH VNODE AUTH BEGIN_ATOMIC COMMIT_ATOMIC ROLLBACK_ATOMIC DATA CORRUPTFS IN_PAGE'
  ).split(' '),
};
