import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { isWatched } from './watch-mode.js';

const tsxLoader = ['--require', '/shop/node_modules/tsx/dist/preflight.cjs'];

function started(given: { env?: Record<string, string>; execArgv?: readonly string[]; parent?: string }) {
  return { env: {}, execArgv: [], ...given, parent: () => given.parent ?? '' };
}

it.each([
  ['a plain process', {}, false],
  ['node --watch', { env: { WATCH_REPORT_DEPENDENCIES: '1' } }, true],
  ['node --watch in production', { env: { WATCH_REPORT_DEPENDENCIES: '1', NODE_ENV: 'production' } }, false],
  ['tsx', { execArgv: tsxLoader, parent: 'node /shop/node_modules/.bin/tsx src/main.ts watch' }, false],
  ['tsx watch', { execArgv: tsxLoader, parent: 'node /shop/node_modules/.bin/tsx watch src/main.ts' }, true],
  ['npx tsx watch', { execArgv: tsxLoader, parent: 'node /shop/node_modules/tsx/dist/cli.mjs watch main.ts' }, true],
  ['an npm script', { execArgv: tsxLoader, env: { npm_lifecycle_script: 'tsx watch src/main.ts' } }, true],
  ['a process that an npm script starts', { env: { npm_lifecycle_script: 'tsx watch src/main.ts' } }, false],
])('detects whether %s is restarted at each edit', (_, given, expected) => {
  expect(isWatched(started(given))).toBe(expected);
});

it('relies on a variable that node --watch sets', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-watch-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const script = join(folder, 'main.mjs');
  await writeFile(script, "console.log('told: ' + process.env.WATCH_REPORT_DEPENDENCIES);");
  const { WATCH_REPORT_DEPENDENCIES: _, ...env } = process.env;
  expect((await promisify(execFile)(process.execPath, [script], { env })).stdout).toContain('told: undefined');
  const watching = spawn(process.execPath, ['--watch', script], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  let output = '';
  while (!output.includes('told:')) output += String((await once(watching.stdout, 'data'))[0]);
  watching.kill();
  expect(output).toContain('told: 1');
});
