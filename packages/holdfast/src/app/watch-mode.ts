import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** How a process was started, as far as it can know. */
export interface Started {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly execArgv: readonly string[];
  /** Returns the command line of the parent process, or an empty string. Called only if it matters. */
  parent(): string;
}

const here: Started = {
  env: process.env,
  execArgv: process.execArgv,
  parent: () => commandOf(process.ppid),
};

/**
 * Returns true if `node --watch` or `tsx watch` restarts this process at each edit. Node sets an environment variable
 * in its child. tsx sets no variable, and starts its child with the same options as without `watch`. Only the command
 * line of the parent contains `watch`. In production the result is always false, because a watcher may run there for
 * other reasons.
 */
export function isWatched({ env, execArgv, parent }: Started = here): boolean {
  if (env.NODE_ENV === 'production') return false;
  if (env.WATCH_REPORT_DEPENDENCIES !== undefined) return true;
  if (!execArgv.some((each) => /[\\/]tsx[\\/]dist[\\/]/.test(each))) return false;
  return [env.npm_lifecycle_script ?? '', parent()].some((command) => tsxWatch.test(command));
}

const tsxWatch = /\btsx([\\/]dist[\\/]cli\.[cm]?js)?["']?\s+watch\b/;

function commandOf(pid: number): string {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
    if (process.platform === 'win32') return '';
    return execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8', timeout: 1_000 });
  } catch {
    return '';
  }
}
