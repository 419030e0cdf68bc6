import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect } from 'vitest';

/**
 * Starts the scripts of an example for its test, with a folder of their own for each test. Whatever still runs when the test
 * is over is killed. `environment` says how the scripts are told of the folder.
 */
export function processesOf(test: string, environment: (folder: string) => Record<string, string>) {
  const started: ReturnType<typeof spawn>[] = [];
  let folder = '';
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-example-'));
  });
  afterEach(async () => {
    for (const child of started.splice(0)) child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });
  const start = (script: string, ...args: string[]) => {
    const env = { ...process.env, ...environment(folder) };
    const path = fileURLToPath(new URL(script, test));
    const child = spawn(process.execPath, [path, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    started.push(child);
    return { child, lines: createInterface({ input: child.stdout }) };
  };
  return {
    start,
    /** The same for a script that says when it is ready. */
    startReady: async (script: string) => {
      const made = start(script);
      expect(await once(made.lines, 'line')).toEqual(['ready']);
      return made.child;
    },
    /** Runs a script to its end, for what it says. */
    output: async (script: string, ...args: string[]): Promise<string[]> => {
      const said: string[] = [];
      for await (const line of start(script, ...args).lines) said.push(line);
      return said;
    },
  };
}
