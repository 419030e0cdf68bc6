import { hostname } from 'node:os';
import { isEnded, isGone, ownProcess } from '../recovery/process.js';

/**
 * The ID that an executor gets when it is given none: host, pid, and when the process started. From it another
 * process on the same host can tell whether its bearer still lives, also in a container whose pid is always 1.
 * A last part tells two apps of one process apart.
 */
export function generateExecutorId(): string {
  // In which space the pid means something goes with it: containers may share the name of a host, and not its pids.
  const started = ownProcess().processStart ?? 'unknown';
  return [hostname().replaceAll(':', '-'), process.pid, started, crypto.randomUUID().slice(0, 8)].join(':');
}

/** Whether an executor ID was generated on this host by a process that is certainly gone. */
export function isDeadHere(executorId: string): boolean {
  const [host, pid, started, ...rest] = executorId.split(':');
  if (rest.length !== 1 || host !== hostname().replaceAll(':', '-') || !/^\d+$/.test(pid ?? '')) return false;
  if (started?.includes('@')) return isGone({ host: hostname(), pid: Number(pid), processStart: started });
  return isEnded(Number(pid), started === 'unknown' ? undefined : started);
}
