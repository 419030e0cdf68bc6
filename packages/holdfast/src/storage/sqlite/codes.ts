/** Whether the code is of this kind: `SQLITE_BUSY` is also `SQLITE_BUSY_SNAPSHOT`. */
export function isSqlite(error: unknown, ...kinds: readonly string[]): boolean {
  const code = sqliteCode(error);
  return kinds.some((kind) => code === kind || code.startsWith(`${kind}_`));
}

/** SQLite's name for what an error of a driver says, such as `SQLITE_BUSY`; empty, if it is no error of SQLite. */
export function sqliteCode(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown };
  if (code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number') return nameOf(errcode);
  return typeof code === 'string' && code.startsWith('SQLITE_') ? code : '';
}

/** `node:sqlite` has the number only: the kind in its low byte, and above it which of these it is, counted from 1. */
function nameOf(errcode: number): string {
  const kind = kinds[errcode & 255];
  if (kind === undefined) return `SQLITE_${errcode}`;
  const more = details[kind]?.[(errcode >> 8) - 1];
  return more === undefined ? `SQLITE_${kind}` : `SQLITE_${kind}_${more}`;
}

const kinds = (
  'OK ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL EMPTY ' +
  'SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB'
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
    'READ SHORT_READ WRITE FSYNC DIR_FSYNC TRUNCATE FSTAT UNLOCK RDLOCK DELETE BLOCKED NOMEM ACCESS CHECKRESERVEDLOCK LOCK ' +
    'CLOSE DIR_CLOSE SHMOPEN SHMSIZE SHMLOCK SHMMAP SEEK DELETE_NOENT MMAP GETTEMPPATH CONVPATH VNODE AUTH BEGIN_ATOMIC ' +
    'COMMIT_ATOMIC ROLLBACK_ATOMIC DATA CORRUPTFS IN_PAGE'
  ).split(' '),
};
