import { tmpdir } from 'node:os';
import { launchPostgres } from './launch-postgres.mjs';

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
  const server = await launchPostgres({ flags, parent });
  return { url: server.url('postgres'), crash: server.crash, restart: server.restart, stop: server.stop };
}
