import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { createInterface } from 'node:readline';
import { expect, it } from 'vitest';
import { generateExecutorId, isDeadHere } from './executor-id.js';

const idOf = (pid: number): string => [hostname().replaceAll(':', '-'), pid, 'unknown', '0a1b2c3d'].join(':');

it('considers this process alive, and a process with the same pid but another start time dead', () => {
  const id = generateExecutorId();
  expect(isDeadHere(id)).toBe(false);
  const [host, pid, , own] = id.split(':');
  expect(isDeadHere([host, pid, 'another-start', own].join(':'))).toBe(process.platform === 'linux');
});

it('never considers an ID dead that was not generated on this host', () => {
  expect(isDeadHere('worker-1')).toBe(false);
  expect(isDeadHere('another-host:999999999:unknown:0a1b2c3d')).toBe(false);
  expect(isDeadHere(idOf(999_999_999))).toBe(true);
});

it.runIf(process.platform === 'linux')(
  'considers a killed process dead before its parent has waited for it',
  async () => {
    // The shell becomes a program that waits for no children, so the killed child stays a zombie.
    const parent = spawn('sh', ['-c', 'sleep 1000 & echo $!; exec sleep 1000'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    try {
      const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
      const pid = Number(line);
      expect(isDeadHere(idOf(pid))).toBe(false);
      process.kill(pid, 'SIGKILL');
      await expect.poll(() => isDeadHere(idOf(pid))).toBe(true);
      expect(process.kill(pid, 0)).toBe(true);
    } finally {
      parent.kill('SIGKILL');
    }
  },
);
