import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ViteUserConfig } from 'vitest/config';

const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));
const flags = ['--target', 'es2022', '--module', 'esnext', '--moduleResolution', 'bundler', '--verbatimModuleSyntax'];
const oneFileOnly = ['--noCheck', '--noResolve', '--types', '', '--sourceMap', '--inlineSources'];

type Plugin = Exclude<NonNullable<ViteUserConfig['plugins']>[number], readonly unknown[]>;

/** Matches a decorator on its own line, or before a member. */
const decorated = /^\s*@\w+[(\s]/m;

/**
 * Node does not run decorators yet, and Vitest's compiler leaves standard decorators as they are. This plugin compiles
 * files with decorators with tsc, as users do.
 */
export function standardDecorators(): Plugin {
  return {
    name: 'standard-decorators',
    enforce: 'pre',
    transform: async (code, id) => {
      const [path = ''] = id.split('?');
      if (!/\.m?ts$/.test(path) || path.includes('/node_modules/')) return null;
      if (!decorated.test(code.replaceAll(/\/\*[\s\S]*?\*\//g, ''))) return null;
      return compile(path);
    },
  };
}

async function compile(path: string) {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-decorators-'));
  try {
    const args = [tsc, path, ...flags, ...oneFileOnly, '--outDir', folder];
    await promisify(execFile)(process.execPath, args, { cwd: folder });
    const output = join(folder, basename(path).replace(/ts$/, 'js'));
    const code = await readFile(output, 'utf8');
    const map = { ...JSON.parse(await readFile(`${output}.map`, 'utf8')), sources: [path] };
    return { code: code.replace(/^\/\/# sourceMappingURL=.*$/m, ''), map };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
