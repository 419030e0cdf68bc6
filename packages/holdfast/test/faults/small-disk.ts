import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { report } from './child-process.js';

/** A file system of a few megabytes, in its own folder. */
export interface SmallDisk {
  readonly folder: string;
  /** Uses up all free space. */
  fill(): void;
  /** Frees the space again. */
  makeRoom(): void;
  remove(): void;
}

/** Returns undefined, and prints the reason, if this machine does not allow the test to mount one. */
export function smallDisk(megabytes: number): SmallDisk | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-small-'));
  try {
    asAdministrator(['mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'holdfast-small', folder]);
  } catch (error) {
    rmSync(folder, { recursive: true });
    report(`skipped: no small file system can be mounted here (${String(error).split('\n')[0]})`);
    return undefined;
  }
  chmodSync(folder, 0o777);
  const ballast = join(folder, 'ballast');
  return {
    folder,
    fill: () => takeAll(ballast),
    makeRoom: () => rmSync(ballast, { force: true }),
    remove: () => {
      asAdministrator(['umount', '-l', folder]);
      rmSync(folder, { recursive: true });
    },
  };
}

/** System programs that need special rights. */
function asAdministrator([program, ...args]: [string, ...string[]]): void {
  execFileSync(program, args, { stdio: 'pipe' });
}

const mebibyte = Buffer.alloc(2 ** 20);
const page = mebibyte.subarray(0, 4096);

function takeAll(path: string): void {
  const file = openSync(path, 'a');
  for (const piece of [mebibyte, page]) {
    try {
      while (writeSync(file, piece) === piece.length);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }
  closeSync(file);
  if (statSync(path).size === 0) throw new Error(`Nothing could be written to ${path}: it was full before.`);
}
