import { hostname } from 'node:os';
import { isEnded, isGone, ownProcess } from '../recovery/process.js';

/**
 * Generates an executor ID from the host name, the pid and the start time of the process. From the ID, another process
 * on the same host can detect that the process has ended, even in a container whose pid is always 1. A random last
 * part distinguishes several apps in one process.
 */
export function generateExecutorId(): string {
  // The start time includes the pid namespace, because containers may share a host name, but not the pids.
  const started = ownProcess().processStart ?? 'unknown';
  return [hostname().replaceAll(':', '-'), process.pid, started, crypto.randomUUID().slice(0, 8)].join(':');
}

/** Returns true if an executor ID was generated on this host by a process that is certainly gone. */
export function isDeadHere(executorId: string): boolean {
  const [host, pid, started, ...rest] = executorId.split(':');
  if (rest.length !== 1 || host !== hostname().replaceAll(':', '-') || !/^\d+$/.test(pid ?? '')) return false;
  if (started?.includes('@')) return isGone({ host: hostname(), pid: Number(pid), processStart: started });
  return isEnded(Number(pid), started === 'unknown' ? undefined : started);
}
