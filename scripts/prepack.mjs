/**
 * npm runs this script before and after `npm pack` and `npm publish` of packages/holdfast. The script installs packages
 * if they are missing, builds, and copies README, LICENSE and NOTICE of the workspace into the package, where npm looks
 * for them. Links of the README become absolute if the package names its repository. `--clean` removes the copies; git
 * ignores them.
 */
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { absoluteLinks } from './release/absolute-links.mjs';
import { root } from './run-command.mjs';
import { install } from './setup.mjs';

const texts = ['README.md', 'LICENSE', 'NOTICE'];
const folder = join(root, 'packages', 'holdfast');

async function prepare() {
  const missing = texts.filter((name) => !existsSync(join(root, name)));
  if (missing.length > 0) throw new Error(`The package needs ${missing.join(' and ')} in ${root}`);
  // npm also packs a workspace in a new clone, where no package is installed.
  await install();
  const result = await build();
  if (!result.ok) throw new Error(`packages/holdfast does not compile:\n${result.output}`);
  for (const name of texts) copyFileSync(join(root, name), join(folder, name));
  const { repository } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  writeFileSync(join(folder, 'README.md'), absoluteLinks(readme, repository?.url));
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
