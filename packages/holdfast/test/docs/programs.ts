import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Runs the programs of the Markdown pages as a user would: in their own folder, on the built package, after the
 * compiler has checked and removed their types.
 */

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const packageFolder = join(root, 'packages', 'holdfast');

/** The contents of the ```ts blocks of a page, in order. */
export async function blocksOf(page: string): Promise<string[]> {
  const text = await readFile(join(root, page), 'utf8');
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code ?? '');
}

/** The output that a program claims in its comments `// → ...`, in order. */
export function promisedOutput(program: string): string[] {
  return [...program.matchAll(/\/\/ → (.*)$/gm)].map(([, line]) => line ?? '');
}

/** Makes a folder in which `import 'holdfast'` finds the built package, and other imports find these packages. */
export async function newProject(packages: readonly string[] = []): Promise<string> {
  if (!existsSync(join(packageFolder, 'dist', 'index.js'))) {
    throw new Error('The examples of the documentation run on the built package. Build it first: npm run build');
  }
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-docs-'));
  await mkdir(join(folder, 'node_modules'));
  await symlink(packageFolder, join(folder, 'node_modules', 'holdfast'), 'junction');
  for (const each of ['@types', ...packages]) {
    await symlink(join(root, 'node_modules', each), join(folder, 'node_modules', each), 'junction');
  }
  return folder;
}

/** Compiles `<name>.mts` in strict mode. Returns the script to run. */
export async function compile(folder: string, name: string, program: string): Promise<string> {
  await writeFile(join(folder, `${name}.mts`), program);
  const flags = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--skipLibCheck'];
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { code, output } = await runNode(folder, [tsc, ...flags, `${name}.mts`]);
  if (code !== 0) throw new Error(`${name}.mts does not compile:\n${output}`);
  return join(folder, `${name}.mjs`);
}

export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a script to its end. The output is standard output and standard error together. */
export function runNode(folder: string, args: readonly string[]): Promise<Ended> {
  const { HOLDFAST_DATABASE_URL: _, ...env } = process.env;
  return new Promise((resolve) => {
    const child = execFile(process.execPath, args, { cwd: folder, env, timeout: 50_000 }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, output: stdout + stderr }),
    );
  });
}
