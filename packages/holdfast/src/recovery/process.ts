import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** What tells a process from every other, as far as its host can. */
export interface ProcessIdentity {
  readonly host: string;
  readonly pid: number;
  /** When it started, and in which space its pid means something; null where the system does not tell. */
  readonly processStart: string | null;
}

export function ownProcess(): ProcessIdentity {
  const started = processStart(process.pid);
  const space = pidSpace();
  return {
    host: hostname(),
    pid: process.pid,
    processStart: started === undefined || space === undefined ? null : `${started}@${space}`,
  };
}

/**
 * Whether it was a process of this host and is certainly gone. Containers may share the name of a host and not its pids:
 * of a process that cannot be seen from here nothing is certain.
 */
export function isGone({ host, pid, processStart: told }: ProcessIdentity): boolean {
  if (host !== hostname()) return false;
  const [started, space] = told?.split('@') ?? [];
  if (space !== pidSpace()) return false;
  return isEnded(pid, started);
}

/** Whether the pid is nobody's, or another's than the process that started then. */
export function isEnded(pid: number, started: string | undefined): boolean {
  if (!isAlive(pid) || isZombie(pid)) return true;
  const now = processStart(pid);
  // The pid lives, but it may have been given to another process since.
  return now !== undefined && started !== undefined && now !== started;
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

/** The pid namespace of this process: two containers on one host have two. */
function pidSpace(): string | undefined {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
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
