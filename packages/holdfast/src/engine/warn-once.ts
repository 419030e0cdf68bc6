import type { Logger } from '../model/logger.js';

/** Maximum number of warnings that are remembered. */
const maxKeys = 10_000;

/** Logs each warning once, even if its cause occurs often. */
export class WarnOnce {
  private readonly keys = new Set<string>();

  constructor(private readonly logger: Logger) {}

  /** Logs a warning under the key `about`. The function `message` is called at most once; undefined: no warning. */
  once(about: string, message: string | (() => string | undefined)): void {
    if (this.keys.has(about)) return;
    // Programs can create names at run time. A repeated warning is better than memory that grows without limit.
    if (this.keys.size >= maxKeys) this.keys.clear();
    this.keys.add(about);
    const line = typeof message === 'string' ? message : message();
    if (line !== undefined) this.logger.warn(line);
  }
}

/** The key of the warning that work of another version waits for a process of that version. */
export function otherVersion(version: string): string {
  return `work of version ${version}`;
}
