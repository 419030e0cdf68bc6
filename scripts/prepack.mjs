/**
 * What npm calls around `npm pack` and `npm publish` of packages/holdfast: an install where there is none, a fresh build, and
 * the README, LICENSE and NOTICE of the workspace, which npm looks for in the package. `--clean` takes the copies away again; git
 * ignores them.
 */
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { root } from './run-command.mjs';
import { install } from './setup.mjs';

const texts = ['README.md', 'LICENSE', 'NOTICE'];
const folder = join(root, 'packages', 'holdfast');

async function prepare() {
  const missing = texts.filter((name) => !existsSync(join(root, name)));
  if (missing.length > 0) throw new Error(`The package needs ${missing.join(' and ')} in ${root}`);
  // In a new clone nothing is installed, and npm packs a workspace all the same.
  await install();
  const result = await build();
  if (!result.ok) throw new Error(`packages/holdfast does not compile:\n${result.output}`);
  for (const name of texts) copyFileSync(join(root, name), join(folder, name));
}

function clean() {
  for (const name of texts) rmSync(join(folder, name), { force: true });
}

if (process.argv.includes('--clean')) clean();
else {
  await prepare().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
