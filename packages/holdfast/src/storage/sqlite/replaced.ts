import { statSync } from 'node:fs';
import { resolve } from 'node:path';

/**
 * Whether a file is still the one that is open. A connection goes on with the file that it opened, also when another one is
 * moved to its place (a backup that is put back): what is written then is gone with the process.
 */
export class OpenFile {
  private readonly opened: string | undefined;
  /** As SQLite keeps it: a program that changes its working directory has the same file open as before. */
  private readonly path: string;

  constructor(path: string) {
    this.path = resolve(path);
    this.opened = path === ':memory:' ? undefined : identityOf(this.path);
  }

  get isReplaced(): boolean {
    return this.opened !== undefined && identityOf(this.path) !== this.opened;
  }
}

/** Undefined: there is none, or this system does not tell files apart. */
function identityOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined || found.ino === 0n ? undefined : `${found.dev} ${found.ino}`;
}
