/**
 * Builds packages/holdfast: src to dist. `node scripts/build.mjs` always builds; setup.mjs builds only what is stale.
 *
 * **Invariant:** dist is the whole result of one successful build. The compiler writes into a folder beside it which
 * takes its place at the end, so a failed build leaves the last good one, and no file outlives its source.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bin, root, runNode } from './run-command.mjs';

const folder = join(root, 'packages', 'holdfast');
const dist = join(folder, 'dist');
// In node_modules, because a new install is a reason to build again.
const stamp = join(root, 'node_modules', '.cache', 'holdfast', 'built');
const configuration = [
  join(folder, 'package.json'),
  join(folder, 'tsconfig.build.json'),
  join(root, 'tsconfig.base.json'),
];

/** True when no source, configuration or folder (a file may be gone) changed since the last good build began. */
export function isBuilt() {
  if (!existsSync(stamp) || !existsSync(join(dist, 'index.js'))) return false;
  const builtAt = statSync(stamp).mtimeMs;
  return [...configuration, ...sourcesIn(join(folder, 'src'))].every((path) => statSync(path).mtimeMs < builtAt);
}

function sourcesIn(path) {
  const entries = readdirSync(path, { withFileTypes: true });
  const found = entries.flatMap((entry) => {
    if (entry.isDirectory()) return sourcesIn(join(path, entry.name));
    return entry.name.endsWith('.test.ts') ? [] : [join(path, entry.name)];
  });
  return [path, ...found];
}

/** @returns {Promise<{ ok: boolean, output: string, ms: number }>} */
export async function build() {
  const begunAt = new Date();
  const next = join(folder, `dist-${process.pid}`);
  const result = await runNode([
    bin('typescript', 'bin/tsc'),
    '-p',
    join(folder, 'tsconfig.build.json'),
    '--outDir',
    next,
  ]);
  if (result.ok) {
    rmSync(dist, { recursive: true, force: true });
    renameSync(next, dist);
    mkdirSync(dirname(stamp), { recursive: true });
    writeFileSync(stamp, '');
    // The time of the beginning: a source saved while the compiler ran is newer than the build.
    utimesSync(stamp, begunAt, begunAt);
  } else {
    rmSync(next, { recursive: true, force: true });
    rmSync(stamp, { force: true });
  }
  return result;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { ok, output } = await build();
  process.stdout.write(output);
  if (!ok) process.exitCode = 1;
}
