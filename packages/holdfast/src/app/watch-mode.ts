import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** What a process knows of how it was started. */
export interface Started {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly execArgv: readonly string[];
  /** The command line of the parent process, if that can be found out. Asked only where it matters. */
  parent(): string;
}

const here: Started = {
  env: process.env,
  execArgv: process.execArgv,
  parent: () => commandOf(process.ppid),
};

/**
 * Whether this process is restarted at each edit, by `node --watch` or `tsx watch`. Node tells its child by a variable. tsx
 * tells it nothing: its child has the loader of tsx among its options, as without `watch`, and the word itself is on the
 * command line of the parent alone. Never in production, where somebody may run a watcher for other reasons.
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
