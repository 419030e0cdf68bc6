/** Checks that package-lock.json names no registry, so that a clone installs from the registry of its machine. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './run-command.mjs';

const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
const bound = Object.entries(packages).filter(([, { resolved }]) => resolved?.includes('://'));
for (const [path] of bound) console.log(`${path} names a registry`);
if (bound.length > 0) {
  console.log('Delete the "resolved" lines, then run npm install: .npmrc prevents npm from writing them again.');
  process.exitCode = 1;
}
