import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

export const root = fileURLToPath(new URL('../../../../', import.meta.url));
const fixtures = fileURLToPath(new URL('./fixtures/', import.meta.url));

/** A user's project with the built package, in its own folder. The folder is removed after the test. */
export interface Consumer {
  readonly folder: string;
  /** Copies a program from the fixtures. */
  add(fixture: string): string;
  run(args: readonly string[], env?: Record<string, string>): SpawnSyncReturns<string>;
}

export function consumer(packages: readonly string[] = ['holdfast']): Consumer {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-loading-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'node_modules'));
  for (const each of packages) {
    const link = join(folder, 'node_modules', each);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(root, 'node_modules', each), link);
  }
  return {
    folder,
    add: (fixture) => {
      copyFileSync(join(fixtures, fixture), join(folder, fixture));
      return join(folder, fixture);
    },
    run: (args, env = {}) =>
      spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8', env: { ...process.env, ...env } }),
  };
}

/** Returns what a program has printed, or throws the reason of its failure. */
export function printed({ status, stdout, stderr }: SpawnSyncReturns<string>): unknown {
  if (status !== 0 || stderr !== '') throw new Error(`It ended with status ${status}: ${stdout}${stderr}`);
  return JSON.parse(stdout);
}
