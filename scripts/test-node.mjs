/**
 * `npm run test:node -- 22 [part of a path ...]`: runs the tests, and every process that they start, on another Node.
 * `npm run test:node -- 24 bench W1 [options of bench]`: runs the benchmark on another Node.
 *
 * **Invariant:** this working copy stays as it is. Installed packages fit one Node (the compiled part of
 * better-sqlite3). Therefore the files are copied to a cache folder, where that Node has its own packages. The cache
 * folder is HOLDFAST_CACHE, or ~/.cache/holdfast. It is outside of any node_modules, because the test runner treats
 * files in node_modules as packages.
 */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { root } from './run-command.mjs';

const cache = process.env.HOLDFAST_CACHE ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast');

async function main([version, ...paths]) {
  if (!/^\d+(\.\d+){0,2}$/.test(version ?? '')) throw new Error('Name a version of Node: npm run test:node -- 22');
  const folder = join(cache, `node-${version}`);
  const node = await fetchNode(version, join(folder, 'node'));
  const copy = copyFiles(join(folder, 'copy'));
  const env = environment(node);
  const run = (args) => waitFor(spawn(node.binary, args, { cwd: copy, env, stdio: 'inherit' }));
  console.log(`Node ${spawnSync(node.binary, ['--version'], { encoding: 'utf8' }).stdout.trim()} in ${copy}`);
  await run([join(copy, 'scripts', 'setup.mjs')]);
  if (hasNodeApi10(node)) await addBetterSqlite3(copy, join(folder, 'better-sqlite3'));
  const [first, ...rest] = paths;
  if (first === 'bench') return run([join(copy, 'bench', 'src', 'main.mjs'), ...rest]);
  await run([join(copy, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...paths]);
}

/** The npm package `node` depends on packages with a binary for one platform each, its headers, and no script. */
async function fetchNode(version, folder) {
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const home = join(folder, 'node_modules', name);
  const binary = join(home, 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
  if (!existsSync(binary)) await fetchPackage(`${name}@${version}`, folder);
  return { home, binary };
}

async function fetchPackage(wanted, folder) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const options = { cwd: folder, stdio: 'inherit', shell: process.platform === 'win32' };
  const args = ['install', wanted, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  await waitFor(spawn('npm', args, options));
}

/**
 * Adds better-sqlite3 13, so that crashes, kills and full disks are tested with both SQLite libraries. The lockfile has
 * version 12, for Node 20, and the installed copy of it is not compiled. Version 13 comes with binaries, and replaces
 * version 12 by a link that no install notices.
 */
async function addBetterSqlite3(copy, folder) {
  const fetched = join(folder, 'node_modules', 'better-sqlite3');
  const place = join(copy, 'node_modules', 'better-sqlite3');
  if (!existsSync(fetched)) await fetchPackage('better-sqlite3@13', folder);
  rmSync(place, { recursive: true, force: true });
  symlinkSync(fetched, place, 'junction');
}

function hasNodeApi10({ binary }) {
  return Number(spawnSync(binary, ['-p', 'process.versions.napi'], { encoding: 'utf8' }).stdout) >= 10;
}

/** Replaces all files except installed packages, so that files deleted in this working copy are not tested there. */
function copyFiles(folder) {
  mkdirSync(folder, { recursive: true });
  removeSources(folder);
  const listed = spawnSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  if (listed.status !== 0) throw new Error(`git ls-files failed: ${listed.stderr}`);
  for (const path of new Set(listed.stdout.split('\0'))) {
    if (path !== '' && existsSync(join(root, path))) cpSync(join(root, path), join(folder, path));
  }
  // The build stamp belongs to a build from other files.
  rmSync(join(folder, 'node_modules', '.cache'), { recursive: true, force: true });
  return folder;
}

/**
 * Removes all files except installed packages, including those of a workspace. Returns whether any packages are left.
 */
function removeSources(folder) {
  let isKept = false;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.name === 'node_modules') isKept = true;
    else if (entry.isDirectory() && removeSources(path)) isKept = true;
    else rmSync(path, { recursive: true, force: true });
  }
  return isKept;
}

/** Puts this Node first on PATH, for programs that are started by name. It compiles against its own headers. */
function environment({ home, binary }) {
  const { npm_config_nodedir: _, ...env } = process.env;
  const headers = existsSync(join(home, 'include', 'node', 'node.h')) ? { npm_config_nodedir: home } : {};
  return { ...env, ...headers, PATH: `${dirname(binary)}${delimiter}${process.env.PATH ?? ''}` };
}

function waitFor(child) {
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`${child.spawnargs.slice(0, 3).join(' ')} ended with ${signal ?? code}`));
    });
  });
}

await main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
