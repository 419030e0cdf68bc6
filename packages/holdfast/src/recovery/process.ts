import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Identifies a process among all processes, as far as its host can tell. */
export interface ProcessIdentity {
  readonly host: string;
  readonly pid: number;
  /** `<start time>@<pid namespace>`, or null where the operating system provides neither. */
  readonly processStart: string | null;
}

/** Returns the identity of this process. */
export function ownProcess(): ProcessIdentity {
  const started = processStart(process.pid);
  const namespace = pidNamespace();
  return {
    host: hostname(),
    pid: process.pid,
    processStart: started === undefined || namespace === undefined ? null : `${started}@${namespace}`,
  };
}

/**
 * Returns true if the process ran on this host and is certainly gone. Containers can share a host name but have
 * separate pid namespaces. For a process of another namespace the result is false.
 */
export function isGone({ host, pid, processStart: identity }: ProcessIdentity): boolean {
  if (host !== hostname()) return false;
  const [started, namespace] = identity?.split('@') ?? [];
  if (namespace !== pidNamespace()) return false;
  return isEnded(pid, started);
}

/** Returns true if no process has this pid, or only a process with another start time. */
export function isEnded(pid: number, started: string | undefined): boolean {
  if (!isAlive(pid) || isZombie(pid)) return true;
  const current = processStart(pid);
  // The operating system may have given the pid to another process since.
  return current !== undefined && started !== undefined && current !== started;
}

/**
 * Returns when a process started: the boot ID and the clock ticks since boot. Undefined if the system does not provide
 * them.
 */
function processStart(pid: number): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
    const fields = statFields(pid);
    return fields && `${boot}-${fields[19]}`;
  } catch {
    return undefined;
  }
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
 * Returns true for a process that was killed, but whose parent has not waited for it. A zombie accepts signals and
 * runs nothing. In a container whose first process does not reap orphans, it remains a zombie forever.
 */
function isZombie(pid: number): boolean {
  const state = statFields(pid)?.[0];
  return state === 'Z' || state === 'X';
}

/** Returns the pid namespace of this process. Two containers on one host have different namespaces. */
function pidNamespace(): string | undefined {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
  } catch {
    return undefined;
  }
}

function statFields(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // Fields are counted after the command name, because the name may contain spaces and parentheses.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
