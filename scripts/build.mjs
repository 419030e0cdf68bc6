/**
 * Builds packages/holdfast from src: ES modules in dist, and CommonJS modules in dist/cjs for programs that cannot load
 * ES modules (jest, and old releases of Node 20). `node scripts/build.mjs` always builds; setup.mjs builds only if the
 * build is stale.
 *
 * **Invariant:** dist is the whole result of one successful build. The compiler writes to a folder beside dist. That
 * folder replaces dist at the end, so a failed build keeps the last good dist, and no file outlives its source.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bin, root, runNode } from './run-command.mjs';

const folder = join(root, 'packages', 'holdfast');
const dist = join(folder, 'dist');
// The stamp is in node_modules, so that a new install causes a new build.
const stamp = join(root, 'node_modules', '.cache', 'holdfast', 'built');
const configuration = [
  join(folder, 'package.json'),
  join(folder, 'tsconfig.build.json'),
  join(folder, 'tsconfig.cjs.json'),
  join(root, 'tsconfig.base.json'),
];

/**
 * Returns whether no source, configuration or folder changed since the last good build began. Folders count because a
 * deleted file changes only its folder.
 */
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
  let result = await compile('tsconfig.build.json', next);
  if (result.ok) result = await compile('tsconfig.cjs.json', join(next, 'cjs'));
  if (result.ok) {
    addTypesOfCommonJs(next);
    rmSync(dist, { recursive: true, force: true });
    renameSync(next, dist);
    mkdirSync(dirname(stamp), { recursive: true });
    writeFileSync(stamp, '');
    // The stamp has the time at which the build began: a source saved while the compiler ran is newer than the build.
    utimesSync(stamp, begunAt, begunAt);
  } else {
    rmSync(next, { recursive: true, force: true });
    rmSync(stamp, { force: true });
  }
  return result;
}

function compile(project, outDir) {
  return runNode([bin('typescript', 'bin/tsc'), '-p', join(folder, project), '--outDir', outDir]);
}

/**
 * Writes the types of the CommonJS entry points. They re-export the types of the ES modules, so the same classes and
 * workflows have one type, whether a program loads a module by `import` or by `require`.
 */
function addTypesOfCommonJs(built) {
  writeFileSync(join(built, 'cjs', 'package.json'), '{ "type": "commonjs" }\n');
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  for (const { require: entry } of Object.values(exports).filter((each) => each.require)) {
    const path = entry.types.slice('./dist/'.length);
    const target = relative(dirname(path), path.slice('cjs/'.length).replace(/\.d\.ts$/, '.js')).replaceAll('\\', '/');
    // Under `moduleResolution: node16`, a compiler that checks libraries reports a CommonJS module that requires an ES
    // module.
    writeFileSync(join(built, path), `// @ts-ignore\nexport * from '${target}';\n`);
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { ok, output } = await build();
  process.stdout.write(output);
  if (!ok) process.exitCode = 1;
}
