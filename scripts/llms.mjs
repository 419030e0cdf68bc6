/**
 * Writes docs/llms.txt: the pages that a language model needs to write programs with Holdfast, in one file.
 * `--check` writes nothing, and fails if the file on disk is out of date.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './run-command.mjs';

const file = join(root, 'docs', 'llms.txt');

/** The pages in reading order. The page about errors is not in the list, because error messages say what to do. */
const pages = [
  'README.md',
  'docs/start/tour.md',
  'docs/guides/recipes.md',
  'docs/reference/api.md',
  'docs/reference/glossary.md',
];

function content() {
  const heading = 'Pages of the documentation of Holdfast, in one file. Made by scripts/llms.mjs; do not edit.';
  const parts = pages.map((page) => `<!-- ${page} -->\n\n${readFileSync(join(root, page), 'utf8').trim()}\n`);
  return `${heading}\n\n${parts.join('\n')}`;
}

function current() {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

if (!process.argv.includes('--check')) writeFileSync(file, content());
else if (current() !== content()) {
  console.log('docs/llms.txt is out of date. Run: node scripts/llms.mjs');
  process.exitCode = 1;
}
