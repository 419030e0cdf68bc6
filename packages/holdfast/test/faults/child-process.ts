import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Past this a process of these tests hangs: none of them waits for real time to pass. */
const longestLifeMs = 90_000;

export interface Exit {
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

/** Fixtures run the built package as plain JavaScript, because a process must start fast; the build must be current. */
export async function requireBuild(): Promise<void> {
  const script = new URL('../../../../scripts/build.mjs', import.meta.url).href;
  const { isBuilt } = (await import(script)) as { isBuilt(): boolean };
  if (isBuilt()) return;
  throw new Error(
    'packages/holdfast/dist is missing or older than src. Run `npm run build`, or `npm test`, which does.',
  );
}

export function fixturePath(name: string): string {
  return fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));
}

/** Runs a fixture until it has ended: by itself and well, or by SIGKILL. Everything else is an error. */
export function runFixture(name: string, argument: unknown): Promise<Exit> {
  const child = spawn(process.execPath, [fixturePath(name), JSON.stringify(argument)]);
  const output: Buffer[] = [];
  const complaints: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => complaints.push(chunk));
  let hung = false;
  const watchdog = setTimeout(() => {
    hung = true;
    child.kill('SIGKILL');
  }, longestLifeMs);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(watchdog);
      if (!hung && (signal === 'SIGKILL' || code === 0))
        return resolve({ signal, output: Buffer.concat(output).toString() });
      const how = hung ? `did not end within ${longestLifeMs} ms` : `ended with ${signal ?? code}`;
      reject(new Error(`${name} ${JSON.stringify(argument)} ${how}: ${Buffer.concat(complaints)}`));
    });
  });
}

/** A line for whoever reads the test's output: counts and seeds. */
export function report(line: string): void {
  process.stdout.write(`${line}\n`);
}
