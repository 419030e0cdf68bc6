import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Sorts the test files into the projects of Vitest:
 *
 * - `unit`: tests without a database, beside the code or for one function.
 * - `sqlite`, `postgres`: tests of behavior and of the storage contract. Most files are in both, and run on one database
 *   in each (HOLDFAST_BACKEND).
 * - `faults`: tests that start processes or servers of their own, and tests of the whole product.
 */
const root = fileURLToPath(new URL('../', import.meta.url));
const tests = 'packages/holdfast/test';

const faultFolders = ['faults', 'soak', 'stock', 'interop', 'loading', 'docs', 'histories', 'cli'];

/** A suite that runs on both databases. */
const suiteOnBoth = /\bdescribe(?:Backends|Layouts|Drivers|Storage)\(/g;
/** The last argument of such a suite that runs on one database only. */
const onlyPostgres = /\['postgres'\]/g;
const onlySqlite = /\['sqlite'\]/g;

function count(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}

/** Files whose tests outside of such suites need the Postgres server. */
const needPostgres = ['transactions/bad-input', 'storage/role-rights'];

function databasesOf(path: string): readonly ('unit' | 'sqlite' | 'postgres')[] {
  const text = readFileSync(join(root, path), 'utf8');
  if (needPostgres.some((name) => path.endsWith(`${name}.test.ts`))) return ['postgres'];
  const suites = count(text, suiteOnBoth);
  if (suites === 0) return [/postgres/i.test(text) ? 'postgres' : /sqlite/i.test(text) ? 'sqlite' : 'unit'];
  if (count(text, onlyPostgres) >= suites) return ['postgres'];
  if (count(text, onlySqlite) >= suites) return ['sqlite'];
  return ['sqlite', 'postgres'];
}

function filesOf(project: 'unit' | 'sqlite' | 'postgres'): string[] {
  return readdirSync(join(root, tests), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.ts') && !faultFolders.some((folder) => path.startsWith(`${folder}/`)))
    .map((path) => `${tests}/${path}`)
    .filter((path) => databasesOf(path).includes(project));
}

export const projects = {
  unit: ['packages/*/src/**/*.test.ts', 'scripts/**/*.test.mjs', ...filesOf('unit')],
  sqlite: filesOf('sqlite'),
  postgres: filesOf('postgres'),
  faults: [...faultFolders.map((folder) => `${tests}/${folder}/**/*.test.ts`), 'examples/**/*.test.ts'],
};
