import { statfsSync } from 'node:fs';

/** More than all SQLite files of a run have together at any time. */
const neededBytes = 2 * 2 ** 30;

/**
 * A folder in memory, where the system has one that is large enough: there a commit of SQLite does not wait for a disk,
 * as one of the tests' Postgres does not (fsync is off). Tests kill our processes, never the machine.
 */
export function memoryFolder(): string | undefined {
  const folder = '/dev/shm';
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize > neededBytes ? folder : undefined;
  } catch {
    return undefined;
  }
}
