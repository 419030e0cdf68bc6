import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const demo = fileURLToPath(new URL('demo.mjs', import.meta.url));
const built = fileURLToPath(new URL('../../packages/holdfast/dist/index.js', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

function runDemo(): Promise<Ended> {
  if (!existsSync(built)) throw new Error('The demo runs the built package. Build it first: npm run build');
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [demo], { timeout: 55_000 }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, output: stdout + stderr }),
    );
  });
}

it('finishes a checkout that was killed with SIGKILL half-way, and runs no finished step twice', async () => {
  const { code, output } = await runDemo();
  expect(output).toContain('killed with SIGKILL');
  expect(output).not.toContain('✖ The');
  expect(output.match(/✔ (reserve stock|charge card|ship)$/gm)).toHaveLength(3);
  const [, killed, revived] = /begun in (\d+), begun in (\d+), done in \2/.exec(output) ?? [];
  expect(output).toContain(`Reserving and charging happened once each, in process ${killed}`);
  expect(output).toContain(`Shipping was completed once, in process ${revived}`);
  expect(killed).not.toBe(revived);
  expect(code).toBe(0);
});

it('names the pages to read next, and prints no colors without a terminal', async () => {
  const { output } = await runDemo();
  for (const text of ['README.md', 'ARCHITECTURE.md', 'docs/guarantees.md', 'examples/'])
    expect(output).toContain(text);
  expect(output).not.toContain('\u001b[');
});
