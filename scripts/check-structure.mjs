/**
 * Checks the rules of structure in CONTRIBUTING.md: layers, drivers and SQL in storage/ only, no import cycles, and
 * sizes. The rules are in structure/. This file finds the sources and prints the violations.
 *
 * Usage: node scripts/check-structure.mjs [root folder]
 */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cycleViolations } from './structure/cycles.mjs';
import { layerViolations } from './structure/layers.mjs';
import { sizeViolations } from './structure/sizes.mjs';
import { readSourceFile } from './structure/source-file.mjs';

const sourceFolders = ['packages', 'bench', 'examples', 'scripts', 'test-support'];
const skippedFolders = new Set(['node_modules', 'dist', 'coverage']);
const sourceName = /\.(ts|mts|tsx|mjs)$/;

/** @returns {{ fileCount: number, violations: { path: string, line: number, what: string, advice: string }[] }} */
export function checkStructure(root) {
  const paths = sourceFolders.flatMap((folder) => sourcesIn(join(root, folder)));
  const files = paths.map((path) => readSourceFile(path, relative(root, path).split(sep).join('/')));
  const violations = [
    ...unreadable(files),
    ...layerViolations(files),
    ...cycleViolations(files),
    ...sizeViolations(files),
  ];
  return { fileCount: files.length, violations };
}

function sourcesIn(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return skippedFolders.has(entry.name) ? [] : sourcesIn(path);
      return sourceName.test(entry.name) ? [path] : [];
    });
}

function unreadable(files) {
  return files
    .filter((file) => file.problem !== null)
    .map(({ path, problem }) => ({ path, line: problem.line, what: problem.text, advice: 'Fix the syntax first.' }));
}

function main(root) {
  const { fileCount, violations } = checkStructure(root);
  for (const { path, line, what, advice } of violations) console.log(`${path}:${line} ${what}. ${advice}`);
  console.log(`${fileCount} files, ${violations.length} violations of the structure rules`);
  // A check that found no files has checked nothing.
  if (violations.length > 0 || fileCount === 0) process.exitCode = 1;
}

const self = fileURLToPath(import.meta.url);
if (process.argv[1] && realpathSync(process.argv[1]) === self) {
  main(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)));
}
