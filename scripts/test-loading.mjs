/**
 * `npm run test:loading -- [attw|jest|next ...]`: loads the packed package in ways that need a large install. Each way
 * has its own project below HOLDFAST_CACHE (default ~/.cache/holdfast). Ways that need a small install are part of
 * `npm test` (test/loading).
 */
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './run-command.mjs';

const cache = process.env.HOLDFAST_CACHE ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast');
const projects = {
  attw: {
    packages: ['@arethetypeswrong/cli@0.18'],
    // `node10` does not know entry points. Nothing that we support uses this resolution.
    test: (folder, tarball) =>
      node(folder, ['node_modules/@arethetypeswrong/cli/dist/index.js', tarball, '--profile', 'node16']),
  },
  jest: { packages: ['jest@30', 'pg@8'], test: (folder) => node(folder, ['node_modules/jest/bin/jest.js']) },
  next: { packages: ['next@16', 'react@19', 'react-dom@19', 'pg@8'], test: testNext },
};

async function main(names) {
  const packed = mkdtempSync(join(tmpdir(), 'holdfast-pack-'));
  try {
    await npm(root, ['pack', '--workspace=holdfast', `--pack-destination=${packed}`]);
    const tarball = join(packed, readdirSync(packed)[0]);
    for (const name of names.length > 0 ? names : Object.keys(projects)) {
      const folder = await prepare(name, tarball);
      await projects[name].test(folder, tarball);
      console.log(`ok   ${name}`);
    }
  } finally {
    rmSync(packed, { recursive: true, force: true });
  }
}

async function prepare(name, tarball) {
  if (!Object.hasOwn(projects, name)) throw new Error(`No project "${name}": ${Object.keys(projects).join(', ')}`);
  const folder = join(cache, 'loading', name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const files = join(root, 'packages', 'holdfast', 'test', 'loading', 'projects', name);
  if (existsSync(files)) cpSync(files, folder, { recursive: true });
  // Without this removal and --no-save, npm would not unpack the same version with other contents again.
  rmSync(join(folder, 'node_modules', 'holdfast'), { recursive: true, force: true });
  // attw reads only the tarball, so it needs no dependencies of the package.
  const wanted = name === 'attw' ? [] : [tarball];
  await npm(folder, ['install', ...projects[name].packages, ...wanted, '--no-save', '--no-audit', '--no-fund']);
  if (!process.getBuiltinModule?.('node:sqlite')) linkBetterSqlite3(folder);
  return folder;
}

/** If Node has no SQLite, the project uses the better-sqlite3 of this workspace, which is already compiled. */
function linkBetterSqlite3(folder) {
  const [ours, place] = [root, folder].map((each) => join(each, 'node_modules', 'better-sqlite3'));
  rmSync(place, { recursive: true, force: true });
  symlinkSync(ours, place, 'junction');
}

/**
 * The instrumentation launches the app, and a route calls it. They are separate bundles. The project has no settings.
 */
async function testNext(folder) {
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', DATABASE: `sqlite:${join(folder, 'next.sqlite')}` };
  const next = join(folder, 'node_modules', 'next', 'dist', 'bin', 'next');
  rmSync(join(folder, 'next.sqlite'), { force: true });
  await ended(spawn(process.execPath, [next, 'build'], { cwd: folder, env, stdio: 'inherit' }));
  const server = spawn(process.execPath, [next, 'start', '-p', '0'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let warnings = '';
  server.stderr.on('data', (chunk) => (warnings += chunk));
  try {
    const { result } = await (await fetch(`${await addressOf(server)}/api/checkout`)).json();
    if (result !== 'order-7 approved by Ada, charged once') throw new Error(`The route answered ${result}`);
    if (warnings.includes('holdfast')) throw new Error(`Expected no warnings of Holdfast: ${warnings}`);
  } finally {
    server.kill();
  }
}

function addressOf(server) {
  return new Promise((resolve, reject) => {
    let output = '';
    server.stdout.on('data', (chunk) => {
      output += chunk;
      const [address] = /http:\/\/localhost:\d+/.exec(output) ?? [];
      if (address && output.includes('Ready')) resolve(address);
    });
    server.on('close', () => reject(new Error(`Next.js ended early: ${output}`)));
  });
}

function node(folder, args) {
  return ended(spawn(process.execPath, args, { cwd: folder, stdio: 'inherit' }));
}

function npm(folder, args) {
  const options = { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'], shell: process.platform === 'win32' };
  return ended(spawn('npm', [...args, '--loglevel=error'], options));
}

function ended(child) {
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => (code === 0 ? resolve() : reject(new Error(`${child.spawnargs.join(' ')} failed`))));
  });
}

await main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
