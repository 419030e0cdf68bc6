import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';

const started: ChildProcess[] = [];
let folder = '';

afterEach(async () => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

function start(script: string, ...args: string[]) {
  const env = { ...process.env, EXPENSES_DATABASE: `sqlite:${join(folder, 'expenses.sqlite')}` };
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(process.execPath, [path, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  return { child, lines: createInterface({ input: child.stdout }) };
}

it('a decision that was sent while the server was dead is heard, and another program reads along', async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-example-'));
  const server = start('server.mjs');
  expect(await once(server.lines, 'line')).toEqual(['ready']);
  const approval = start('approve.mjs', 'yes');
  const output: string[] = [];
  approval.lines.on('line', (line) => output.push(line));
  expect(await once(approval.lines, 'line')).toEqual(['waits for a decision']);
  server.child.kill('SIGKILL');
  await once(server.child, 'exit');
  start('server.mjs');
  await once(approval.child, 'exit');
  const story = ['  Ada asks for 4200 cents', '  approved by Grace', '  paid'];
  expect(output).toEqual(['waits for a decision', ...story, 'paid']);
});
