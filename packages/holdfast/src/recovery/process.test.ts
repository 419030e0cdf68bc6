import { spawn, spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { isGone, ownProcess } from './process.js';

/** The pid of a process that has just ended. */
function formerPid(): number {
  return spawnSync(process.execPath, ['-e', '0']).pid;
}

describe('a process', () => {
  const own = ownProcess();

  it('is not gone while it runs', () => {
    expect(isGone(own)).toBe(false);
  });

  it('is gone when no process has its pid', () => {
    expect(isGone({ ...own, pid: formerPid() })).toBe(true);
  });

  it('is gone when another process has its pid', () => {
    const [, namespace] = own.processStart?.split('@') ?? [];
    if (namespace === undefined) return;
    expect(isGone({ ...own, processStart: `earlier@${namespace}` })).toBe(true);
  });

  it('is not gone when it is only stopped', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    const pid = child.pid as number;
    try {
      child.kill('SIGSTOP');
      expect(isGone({ ...own, pid, processStart: null })).toBe(false);
      const [, namespace] = own.processStart?.split('@') ?? [];
      if (namespace !== undefined) expect(isGone({ ...own, pid, processStart: `@${namespace}` })).toBe(true);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('of another host or pid namespace is never certainly gone', () => {
    const pid = formerPid();
    expect(isGone({ ...own, host: 'elsewhere', pid })).toBe(false);
    const elsewhere = own.processStart?.replace(/@.*/, '@another namespace') ?? 'start@another namespace';
    expect(isGone({ ...own, pid, processStart: elsewhere })).toBe(false);
  });
});
