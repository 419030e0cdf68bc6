/**
 * Makes a clone ready to run: the first part of `npm test`, `npm run demo`, `npm run bench` and `npm run check`.
 *
 * The script installs packages if node_modules differs from package-lock.json, and builds if a source is newer than the
 * build. Otherwise it prints nothing. It imports no packages, because it runs before any package is installed.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, isBuilt } from './build.mjs';
import { root, runNpm, seconds } from './run-command.mjs';

const oldestNode = 20;

/**
 * Installs the versions of the lockfile and leaves the lockfile as it is. `npm ci` is not used, because it refuses a
 * lockfile without the binaries of other platforms. npm writes such a lockfile if its registry mirrors only some
 * platforms. Development packages are installed even if NODE_ENV=production is set.
 */
const installCommand = ['install', '--no-save', '--include=dev'];

/**
 * Node 22.13 and newer includes SQLite, so nothing has to be compiled. The install script of better-sqlite3 is then
 * skipped: an npm that runs all scripts would download or compile better-sqlite3 for minutes.
 */
const nodeHasSqlite = process.getBuiltinModule?.('node:sqlite') !== undefined;

/** A reason why the setup cannot continue. Its message is for the person at the terminal. */
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
 * Compares the packages that npm recorded as installed with those of the lockfile. File times are no help: npm writes
 * the two files in either order, and a checkout touches the lockfile without a change. For packages in the node_modules
 * of a workspace, this function also checks that the folder exists. npm records them in the root's node_modules, so a
 * copy or a clean-up of the sources may lose the folder but keep the record.
 */
function isInstalled() {
  const installed = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(installed)) return false;
  const present = packagesIn(installed);
  const wanted = Object.entries(packagesIn(join(root, 'package-lock.json')));
  return wanted
    .filter(([path]) => path.includes('node_modules/'))
    .every(([path, { version, optional, devOptional }]) => {
      // An optional package that is absent is for another platform.
      if (!present[path]) return Boolean(optional || devOptional);
      return present[path].version === version && (path.startsWith('node_modules/') || existsSync(join(root, path)));
    });
}

function packagesIn(lockfile) {
  return JSON.parse(readFileSync(lockfile, 'utf8')).packages;
}

/** The compiled part of better-sqlite3 fits one Node version. It is missing if npm ran no install scripts. */
function sqliteLoads() {
  try {
    const Database = createRequire(join(root, 'packages', 'holdfast', 'package.json'))('better-sqlite3');
    new Database(':memory:').close();
    return true;
  } catch {
    return false;
  }
}

/** Runs the install scripts of the installed packages that are allowed to have any. The Postgres binaries need them. */
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
    `${lastLines}\n\n\`${command}\` failed; its last lines are above. Check the connection to your npm registry. ` +
      'If better-sqlite3 could not be compiled, install Python 3 and a C++ compiler. Then run the command again.',
  );
}

/** Prints only the message of a SetupError. Any other error is a bug of this script, and is printed with its stack. */
export function explain(error) {
  console.error(error instanceof SetupError ? `\n${error.message}` : error);
  process.exitCode = 1;
}

async function main() {
  await install();
  await buildIfStale();
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) await main().catch(explain);
