import { readFileSync, statfsSync } from 'node:fs';

/**
 * Returns a folder in memory, if the system has one with enough space, and enough memory for it. In such a folder, a
 * SQLite commit does not wait for a disk, and Postgres creates a database in a tenth of the time. Durability is not
 * needed: tests kill processes, but never the machine.
 */
export function memoryFolder(neededBytes: number): string | undefined {
  const folder = '/dev/shm';
  try {
    const { bavail, bsize } = statfsSync(folder);
    return Math.min(bavail * bsize, availableMemory()) > neededBytes ? folder : undefined;
  } catch {
    return undefined;
  }
}

/** The size limit of the folder does not show how much memory other programs have left. */
function availableMemory(): number {
  const [, kilobytes] = /^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8')) ?? [];
  return Number(kilobytes ?? 0) * 1024;
}
