import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const fixture = fileURLToPath(new URL('./fixtures/dbos-in-flight.mjs', import.meta.url));

/** The releases of the SDK, and the names under which they are installed here. */
export const sdks = { '4.27.6': 'dbos-sdk-4', '5.3.0': '@dbos-inc/dbos-sdk' } as const;

export interface InFlight {
  readonly database: string;
  readonly sdk: string;
  readonly name: string;
  readonly queue?: string;
  /** The workflows to start: arguments by workflow ID. Each `order` is running when the process is killed. */
  readonly start: { readonly order?: Record<string, unknown[]>; readonly greet?: Record<string, unknown[]> };
}

/** Runs a DBOS application until each workflow is running or has ended, and kills its process. */
export async function killedInFlight(options: InFlight): Promise<void> {
  const child = fork(fixture, [JSON.stringify(options)], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  await underWay(child, Object.keys(options.start.order ?? {}).length);
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

function underWay(child: ChildProcess, orders: number): Promise<void> {
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  let missing = orders + 1;
  return new Promise((resolve, reject) => {
    child.on('message', () => {
      missing--;
      if (missing === 0) resolve();
    });
    child.once('exit', () => reject(new Error(`The process of DBOS has ended: ${output}`)));
  });
}
