import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** A process that runs longer than this is stuck: no fixture waits for real time to pass. */
const longestLifeMs = 90_000;

export interface Exit {
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

/**
 * Fixtures run the built package as plain JavaScript, because a process must start fast. The build must be current.
 */
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

/** Runs a fixture until it exits with success or dies by SIGKILL. Any other end is an error. */
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

/** Prints a line with counts and seeds to the output of the test run. */
export function report(line: string): void {
  process.stdout.write(`${line}\n`);
}
