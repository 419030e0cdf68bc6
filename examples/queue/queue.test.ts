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
  const env = { ...process.env, PICTURES_DATABASE: `sqlite:${join(folder, 'pictures.sqlite')}` };
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

it('two workers share the queue, and the small customer does not wait for the large one', async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-example-'));
  const first = await startWorker();
  await startWorker();
  const output = (await start('enqueue.mjs').stdout?.toArray())?.join('') ?? '';
  const [, made, workers, last] = /(\d+) thumbnails by (\d) processes; .* last after (\d+) of them/.exec(output) ?? [];
  expect({ made, workers }).toEqual({ made: '44', workers: '2' });
  expect(Number(last)).toBeLessThan(30);
  expect(output).toMatch(/next: every night, at \d{4}-\d\d-\d\dT0[01]:30:00\.000Z/);
  first.kill('SIGTERM');
  expect(await once(first, 'exit')).toEqual([0, null]);
});
