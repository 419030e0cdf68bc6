/** Runs other programs for the scripts in this folder. The output is returned, not printed: the caller decides. */
import { spawn } from 'node:child_process';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** @returns {Promise<{ ok: boolean, output: string, ms: number }>} standard output and standard error, in order */
export function runNode(args, options = {}) {
  return run(process.execPath, args, options);
}

/** Runs Node with its output on the terminal. @returns {Promise<number>} its exit code */
export function runVisibly(args, options = {}) {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], ...options });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve(code ?? 1));
  });
}

/** Uses the npm that started this process, if any: the first npm on the PATH may be another one. */
export function runNpm(args) {
  const started = process.env.npm_execpath ?? '';
  if (basename(started).startsWith('npm-cli')) return runNode([started, ...args]);
  return run('npm', args, { shell: process.platform === 'win32' });
}

export function runGit(args) {
  return run('git', args);
}

/** Returns the script of a command of an installed package: `bin('knip', 'bin/knip.js')`. */
export function bin(packageName, path) {
  return join(root, 'node_modules', packageName, path);
}

function run(command, args, options) {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], ...options });
    const chunks = [];
    const done = (ok) => {
      resolve({ ok, output: Buffer.concat(chunks).toString('utf8'), ms: performance.now() - startedAt });
    };
    child.stdout.on('data', (chunk) => chunks.push(chunk));
    child.stderr.on('data', (chunk) => chunks.push(chunk));
    child.on('error', (error) => {
      chunks.push(Buffer.from(`${command} could not be started: ${error.message}\n`));
      done(false);
    });
    child.on('close', (code) => done(code === 0));
  });
}

export function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}
