import { statSync } from 'node:fs';
import { resolve } from 'node:path';

/**
 * Detects that another file has taken the place of an open file. A connection continues to use the file that it opened,
 * even if a different file is moved to the same path (a restored backup). Everything that the connection writes
 * afterwards is lost when the process ends.
 */
export class OpenFile {
  private readonly openedIdentity: string | undefined;
  /** An absolute path, as in SQLite: after a change of the working directory, the same file is still open. */
  private readonly path: string;

  constructor(path: string) {
    this.path = resolve(path);
    this.openedIdentity = path === ':memory:' ? undefined : identityOf(this.path);
  }

  get isReplaced(): boolean {
    return this.openedIdentity !== undefined && identityOf(this.path) !== this.openedIdentity;
  }
}

/** Undefined: there is no file, or this system does not give files an identity. */
function identityOf(path: string): string | undefined {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined || stats.ino === 0n ? undefined : `${stats.dev} ${stats.ino}`;
}
