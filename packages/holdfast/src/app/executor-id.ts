import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

/**
 * The ID that an executor gets when it is given none: host, pid, and when the process started. From it another
 * process on the same host can tell whether its bearer still lives, also in a container whose pid is always 1.
 * A last part tells two apps of one process apart.
 */
export function generateExecutorId(): string {
  const started = processStart(process.pid) ?? 'unknown';
  return [hostname().replaceAll(':', '-'), process.pid, started, crypto.randomUUID().slice(0, 8)].join(':');
}

/** Whether an executor ID was generated on this host by a process that is certainly gone. */
export function isDeadHere(executorId: string): boolean {
  const [host, pid, started, ...rest] = executorId.split(':');
  if (rest.length !== 1 || host !== hostname().replaceAll(':', '-') || !/^\d+$/.test(pid ?? '')) return false;
  if (!isAlive(Number(pid)) || isZombie(Number(pid))) return true;
  const now = processStart(Number(pid));
  // The pid lives, but it may have been given to another process since.
  return now !== undefined && started !== 'unknown' && now !== started;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Killed, but not yet waited for by its parent: it still takes signals, and runs nothing any more. In a container whose
 * first process reaps no orphans it stays so for ever.
 */
function isZombie(pid: number): boolean {
  const state = statFields(pid)?.[0];
  return state === 'Z' || state === 'X';
}

/** When a process started: which boot of the machine, and ticks since then. Undefined where the system does not tell. */
function processStart(pid: number): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
    const fields = statFields(pid);
    return fields && `${boot}-${fields[19]}`;
  } catch {
    return undefined;
  }
}

function statFields(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // Fields are counted from behind the command's name, which may itself contain spaces and parentheses.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
