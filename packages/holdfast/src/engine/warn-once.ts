import type { Logger } from '../model/logger.js';

/** How many things that were warned of are remembered. */
const most = 10_000;

/** What is said once, however often it comes up. */
export class WarnOnce {
  private readonly said = new Set<string>();

  constructor(private readonly logger: Logger) {}

  /** `message` is worked out once, too. Undefined: there is nothing to say. */
  once(about: string, message: string | (() => string | undefined)): void {
    if (this.said.has(about)) return;
    // Names can be made up at run time: better a warning twice than all of them in memory for ever.
    if (this.said.size >= most) this.said.clear();
    this.said.add(about);
    const line = typeof message === 'string' ? message : message();
    if (line !== undefined) this.logger.warn(line);
  }
}

/** Under which it is said, once, that work of another version waits for a process of that. */
export function otherVersion(version: string): string {
  return `work of version ${version}`;
}
