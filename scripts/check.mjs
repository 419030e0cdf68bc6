/**
 * `npm run check`: runs every static check. Each check prints one line, and its full report if it fails. All checks run
 * even if one fails. `--report <file>` also writes the counts as JSON, for .ci/run.
 */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { bin, root, runNode, seconds } from './run-command.mjs';
import { explain, install } from './setup.mjs';

function checks() {
  const script = (name) => runNode([join(root, 'scripts', name)]);
  return [
    ['build', build],
    ['format and lint', () => runNode([bin('@biomejs/biome', 'bin/biome'), 'check', '--error-on-warnings'])],
    ...projects().map((project) => [`types of ${project}`, () => typeCheck(project)]),
    ['structure', () => script('check-structure.mjs')],
    ['spelling', () => runNode([bin('cspell', 'bin.mjs'), 'lint', '--no-progress', '--no-summary'])],
    ['unused code', () => runNode([bin('knip', 'bin/knip.js'), '--no-progress'])],
    ['package', () => script('check-package.mjs')],
    ['llms.txt', () => runNode([join(root, 'scripts', 'llms.mjs'), '--check'])],
    ['lockfile', () => script('check-lockfile.mjs')],
  ];
}

/** Returns every folder of the workspace that has a TypeScript project. */
function projects() {
  const inside = (parent) => {
    const folder = join(root, parent);
    return existsSync(folder) ? readdirSync(folder).map((name) => `${parent}/${name}`) : [];
  };
  const folders = [...inside('packages'), ...inside('examples'), 'bench', 'scripts', 'test-support'];
  return folders.filter((folder) => existsSync(join(root, folder, 'tsconfig.json')));
}

function typeCheck(project) {
  return runNode([bin('typescript', 'bin/tsc'), '--noEmit', '-p', join(root, project)]);
}

async function runAll() {
  const counts = { passed: 0, failed: 0 };
  for (const [name, check] of checks()) {
    const { ok, output, ms } = await check();
    counts[ok ? 'passed' : 'failed'] += 1;
    console.log(`${ok ? 'ok  ' : 'FAIL'} ${name} (${seconds(ms)})`);
    if (!ok) console.log(`\n${output.trim().replace(/^/gm, '     ')}\n`);
  }
  return counts;
}

async function main() {
  await install();
  const counts = await runAll();
  console.log(`\nchecks: ${counts.passed} passed, ${counts.failed} failed`);
  const report = process.argv.indexOf('--report');
  if (report > 0) writeFileSync(process.argv[report + 1], JSON.stringify(counts));
  if (counts.failed > 0) process.exitCode = 1;
}

await main().catch(explain);
