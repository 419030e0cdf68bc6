import { readFileSync, statfsSync } from 'node:fs';

/**
 * A folder in memory, where the system has one with that much room, and the memory for it. There a commit of SQLite does
 * not wait for a disk, and Postgres makes a database in a tenth of the time. Tests kill our processes, never the machine.
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

/** The folder's own limit says nothing about what others have left of the memory behind it. */
function availableMemory(): number {
  const [, kilobytes] = /^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8')) ?? [];
  return Number(kilobytes ?? 0) * 1024;
}
