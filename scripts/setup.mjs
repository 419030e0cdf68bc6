/**
 * Makes a clone ready to run: the first part of `npm test`, `npm run demo`, `npm run bench` and `npm run check`.
 *
 * It installs when node_modules does not hold what package-lock.json asks for, and builds when a source is newer than
 * the build. When there is nothing to do it says nothing. It uses only Node itself, because it runs before any
 * package is installed.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, isBuilt } from './build.mjs';
import { root, runNpm, seconds } from './run-command.mjs';

const oldestNode = 20;

/**
 * Installs the versions of the lockfile and leaves the lockfile as it is. Not `npm ci`: that refuses a lockfile which
 * lacks the binaries of other platforms, and a registry that mirrors only some platforms makes npm write such a one.
 * Development packages are wanted also where NODE_ENV=production is set.
 */
const installCommand = ['install', '--no-save', '--include=dev'];

/**
 * From 22.13 on Node brings the SQLite that everything runs on, so that nothing is compiled there. The install script of
 * better-sqlite3 is left out then, which an npm that runs all scripts would fetch or compile for minutes.
 */
const nodeHasSqlite = process.getBuiltinModule?.('node:sqlite') !== undefined;

/** What stands in the way of going on, in words for the person at the terminal. */
class SetupError extends Error {}

export async function install() {
  refuseOldNode();
  if (!isInstalled()) {
    const compiling = nodeHasSqlite ? '' : ', a few more if better-sqlite3 has to be compiled on this machine';
    console.log(`Installing packages: about a minute${compiling}.`);
    const scripts = nodeHasSqlite ? ['--ignore-scripts'] : [];
    const result = await runNpm([...installCommand, ...scripts, '--no-audit', '--no-fund', '--loglevel=error']);
    if (!result.ok) throw installFailed('npm install', result.output);
    if (nodeHasSqlite) await runOtherScripts();
    console.log(`Installed in ${seconds(result.ms)}.`);
  }
  if (!nodeHasSqlite && !sqliteLoads()) await rebuildSqlite();
}

async function buildIfStale() {
  if (isBuilt()) return;
  const result = await build();
  if (!result.ok) throw new SetupError(`packages/holdfast does not compile:\n\n${result.output}`);
  console.log(`Built packages/holdfast in ${seconds(result.ms)}.`);
}

function refuseOldNode() {
  if (Number.parseInt(process.versions.node, 10) >= oldestNode) return;
  throw new SetupError(`Holdfast needs Node ${oldestNode} or newer; this is Node ${process.versions.node}.`);
}

/**
 * Compares what npm says it installed with what the lockfile asks for. Times would not do: npm writes the two files in
 * either order, and a checkout touches the lockfile without changing it. Packages that a workspace has for itself are looked
 * for, since they are not in the folder where npm notes them, and a copy or a clean-up of the sources may leave them behind.
 */
function isInstalled() {
  const installed = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(installed)) return false;
  const present = packagesIn(installed);
  const wanted = Object.entries(packagesIn(join(root, 'package-lock.json')));
  return wanted
    .filter(([path]) => path.includes('node_modules/'))
    .every(([path, { version, optional, devOptional }]) => {
      // An optional package that is absent is one for another platform.
      if (!present[path]) return Boolean(optional || devOptional);
      return present[path].version === version && (path.startsWith('node_modules/') || existsSync(join(root, path)));
    });
}

function packagesIn(lockfile) {
  return JSON.parse(readFileSync(lockfile, 'utf8')).packages;
}

/** Its compiled part fits one Node version, and is missing altogether where npm was told to run no install scripts. */
function sqliteLoads() {
  try {
    const Database = createRequire(join(root, 'packages', 'holdfast', 'package.json'))('better-sqlite3');
    new Database(':memory:').close();
    return true;
  } catch {
    return false;
  }
}

/** Of the packages whose scripts are allowed and that are here: the binaries of Postgres need theirs. */
async function runOtherScripts() {
  const { allowScripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const here = Object.keys(allowScripts).filter(
    (name) => name !== 'better-sqlite3' && existsSync(join(root, 'node_modules', name)),
  );
  const result = await runNpm(['rebuild', ...here, '--ignore-scripts=false', '--loglevel=error']);
  if (!result.ok) throw installFailed(`npm rebuild ${here.join(' ')}`, result.output);
}

async function rebuildSqlite() {
  console.log(`Preparing better-sqlite3 for Node ${process.versions.node}: up to a few minutes.`);
  const result = await runNpm(['rebuild', 'better-sqlite3', '--ignore-scripts=false', '--loglevel=error']);
  if (!result.ok || !sqliteLoads()) throw installFailed('npm rebuild better-sqlite3', result.output);
  console.log(`Prepared in ${seconds(result.ms)}.`);
}

function installFailed(command, output) {
  const lastLines = output.trimEnd().split('\n').slice(-30).join('\n');
  return new SetupError(
    `${lastLines}\n\n\`${command}\` failed; its last words are above. Check the connection to your npm registry. If ` +
      'better-sqlite3 could not be compiled, install Python 3 and a C++ compiler. Then run the command again.',
  );
}

/** Reports a SetupError in plain words; anything else is a fault of this script and keeps its stack. */
export function explain(error) {
  console.error(error instanceof SetupError ? `\n${error.message}` : error);
  process.exitCode = 1;
}

async function main() {
  await install();
  await buildIfStale();
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) await main().catch(explain);
