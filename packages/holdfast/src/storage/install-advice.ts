import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Returns the command that installs a driver with the package manager of this project. */
export function howToInstall(wanted: string): string {
  const commands = { npm: 'npm install', pnpm: 'pnpm add', yarn: 'yarn add' };
  return `Run: ${commands[packageManager()]} ${wanted}.`;
}

/**
 * Returns the command that installs better-sqlite3. Version 12 has an install script, which package managers run only
 * with permission. Version 13 includes its binaries.
 */
export function howToInstallSqlite(major: number): string {
  const wanted = `better-sqlite3@${major}`;
  if (major !== 12) return howToInstall(wanted);
  const commands = {
    npm: `npm install ${wanted} (if npm blocks install scripts: npm install-scripts approve better-sqlite3)`,
    pnpm: `pnpm add --allow-build=better-sqlite3 ${wanted}`,
    yarn: `yarn add ${wanted} (if yarn blocks install scripts: ${yarnAllows})`,
  };
  return `Run: ${commands[packageManager()]}.`;
}

export function howToBuildSqlite(): string {
  const commands = {
    npm: 'npm rebuild better-sqlite3 (if npm blocks install scripts: npm install-scripts approve better-sqlite3)',
    pnpm: 'pnpm approve-builds, select better-sqlite3, and then run pnpm rebuild better-sqlite3',
    yarn:
      `yarn rebuild better-sqlite3 (if yarn blocks install scripts: ${yarnAllows}), or with yarn 1: ` +
      'yarn install --force',
  };
  return `Run: ${commands[packageManager()]}.`;
}

const yarnAllows = '"dependenciesMeta": { "better-sqlite3": { "built": true } } in package.json';

type PackageManager = 'npm' | 'pnpm' | 'yarn';

const lockfiles: readonly (readonly [string, PackageManager])[] = [
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['package-lock.json', 'npm'],
];

/**
 * Returns the package manager that started this process. If no package manager did, returns the one whose lockfile is
 * in the working directory or in the nearest directory above it.
 */
function packageManager(): PackageManager {
  const [name] = (process.env.npm_config_user_agent ?? '').split('/');
  if (name === 'npm' || name === 'pnpm' || name === 'yarn') return name;
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    const found = lockfiles.find(([file]) => existsSync(join(folder, file)));
    if (found) return found[1];
    if (folder === dirname(folder)) return 'npm';
  }
}
