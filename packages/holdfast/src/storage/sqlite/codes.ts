/** Whether the code is of this kind: `SQLITE_BUSY` is also `SQLITE_BUSY_SNAPSHOT`. */
export function isSqlite(error: unknown, ...kinds: readonly string[]): boolean {
  const code = sqliteCode(error);
  return kinds.some((kind) => code === kind || code.startsWith(`${kind}_`));
}

/** SQLite's name for what an error of a driver says, such as `SQLITE_BUSY`; empty, if it is no error of SQLite. */
export function sqliteCode(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' && code.startsWith('SQLITE_') ? code : '';
}
