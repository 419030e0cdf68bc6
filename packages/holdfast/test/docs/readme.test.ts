import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { blocksOf, compile, newProject, promisedOutput, runNode } from './programs.js';

let folder: string;
beforeAll(async () => {
  folder = await newProject(['pg', 'postgres']);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const lines = (output: string): string[] => output.trimEnd().split('\n');

describe('The first example of the README', () => {
  it('continues when it is killed and run again, and after that only shows the result', async () => {
    const [program = ''] = await blocksOf('README.md');
    const script = await compile(folder, 'checkout', program);

    const first = spawn(process.execPath, [script], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
    const firstOutput = first.stdout.setEncoding('utf8').toArray();
    await vi.waitFor(() => expect(stepNames(join(folder, 'shop.sqlite'))).toContain('DBOS.sleep'), { timeout: 30_000 });
    first.kill('SIGKILL');
    await once(first, 'exit');
    expect(lines((await firstOutput).join(''))).toEqual(['stock reserved', 'card charged']);

    const second = await runNode(folder, [script]);
    expect(lines(second.output)).toEqual(['shipped', 'receipt for order-7']);

    const third = await runNode(folder, [script]);
    expect(lines(third.output)).toEqual(['receipt for order-7']);
  });

  it('is about twenty lines long', async () => {
    const [program = ''] = await blocksOf('README.md');
    expect(lines(program).length).toBeLessThanOrEqual(22);
  });
});

it('The tour prints what its comments say', async () => {
  const blocks = await blocksOf('docs/start/tour.md');
  const program = blocks.join('\n');
  const { code, output } = await runNode(folder, [await compile(folder, 'tour', program)]);
  expect(promisedOutput(program).length).toBeGreaterThan(5);
  expect(lines(output)).toEqual(promisedOutput(program));
  expect(code).toBe(0);
});

it.each(['testing', 'queues'])('The example of docs/guides/%s.md prints what its comments say', async (page) => {
  const program = (await blocksOf(`docs/guides/${page}.md`)).join('\n');
  const { code, output } = await runNode(folder, [await compile(folder, page, program)]);
  expect(promisedOutput(program).length).toBeGreaterThan(3);
  expect(lines(output)).toEqual(promisedOutput(program));
  expect(code).toBe(0);
});

it('Each example of docs/guides/transactions.md compiles by itself', async () => {
  const blocks = await blocksOf('docs/guides/transactions.md');
  for (const [n, block] of blocks.entries()) await compile(folder, `transactions-${n}`, block);
  expect(blocks.length).toBeGreaterThan(1);
});

it.each([
  ['README.md', 150],
  ['ARCHITECTURE.md', 300],
])('%s has at most %i lines', async (page, most) => {
  const text = await readFile(new URL(`../../../../${page}`, import.meta.url), 'utf8');
  expect(lines(text).length).toBeLessThanOrEqual(most);
});

/** The recorded steps in a file that another process is writing. */
function stepNames(file: string): string[] {
  const db = openSqlite(file, { readonly: true });
  try {
    return db.prepare('select function_name from operation_outputs').pluck().all() as string[];
  } finally {
    db.close();
  }
}
