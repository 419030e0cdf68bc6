import { spawn, spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { isGone, ownProcess } from './process.js';

/** A pid that was a process's a moment ago. */
function formerPid(): number {
  return spawnSync(process.execPath, ['-e', '0']).pid;
}

describe('a process', () => {
  const own = ownProcess();

  it('is not gone while it runs', () => {
    expect(isGone(own)).toBe(false);
  });

  it('is gone when nobody has its pid any more', () => {
    expect(isGone({ ...own, pid: formerPid() })).toBe(true);
  });

  it('is gone when its pid is that of another process by now', () => {
    const [, space] = own.processStart?.split('@') ?? [];
    if (space === undefined) return;
    expect(isGone({ ...own, processStart: `earlier@${space}` })).toBe(true);
  });

  it('is not gone when it is only stopped', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    const pid = child.pid as number;
    try {
      child.kill('SIGSTOP');
      expect(isGone({ ...own, pid, processStart: null })).toBe(false);
      const [, space] = own.processStart?.split('@') ?? [];
      if (space !== undefined) expect(isGone({ ...own, pid, processStart: `@${space}` })).toBe(true);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('of which nothing can be seen from here is never certainly gone', () => {
    const pid = formerPid();
    expect(isGone({ ...own, host: 'elsewhere', pid })).toBe(false);
    const elsewhere = own.processStart?.replace(/@.*/, '@another space') ?? 'start@another space';
    expect(isGone({ ...own, pid, processStart: elsewhere })).toBe(false);
  });
});
