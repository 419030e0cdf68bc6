import { tmpdir } from 'node:os';
import { launchPostgres } from './launch-postgres.mjs';

export interface PostgresServer {
  /** URL of the server's maintenance database. */
  readonly url: string;
  /** Ends the server at once, like a crash. */
  crash(): Promise<void>;
  /** Crashes the server if it runs, and starts it again. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a new Postgres server on a free port, in a folder that is removed when the server stops. */
export async function startPostgres(flags: readonly string[] = [], parent = tmpdir()): Promise<PostgresServer> {
  const server = await launchPostgres({ flags, parent });
  return { url: server.url('postgres'), crash: server.crash, restart: server.restart, stop: server.stop };
}
