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

function start(script: string): ChildProcess {
  const env = { ...process.env, SHOP_FILE: join(folder, 'shop.sqlite') };
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(process.execPath, [path], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  return child;
}

async function startWorker(): Promise<ChildProcess> {
  const worker = start('worker.mjs');
  if (!worker.stdout) throw new Error('A worker has an output.');
  expect(await once(createInterface({ input: worker.stdout }), 'line')).toEqual(['ready']);
  return worker;
}

it('ships every order that was committed, and each out of the stock once, although a worker is killed', async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-example-'));
  const first = await startWorker();
  await startWorker();
  const output = start('order.mjs').stdout?.toArray();
  first.kill('SIGKILL');
  expect((await output)?.join('')).toBe('20 orders, 20 workflows, 80 of 100 pieces left\n');
});
