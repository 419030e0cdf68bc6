import { expect, inject } from 'vitest';

/** A server that tests may crash, separate from the server of the whole run. See test-support/postgres-server.ts. */
export interface OwnPostgres {
  readonly url: string;
  /** Stops the server at once, as a crash would. */
  crash(): Promise<void>;
  /** Crashes the server if it runs, and starts it again. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export type Settings = Readonly<Record<string, string | number>>;

export const flagsOf = (settings: Settings): string[] =>
  Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

export async function startOwnPostgres(settings: Settings): Promise<OwnPostgres> {
  // The module lies outside the folder that is compiled together with this one.
  const support = '../../../../test-support/postgres-server.js';
  const { startPostgres } = (await import(support)) as {
    startPostgres(flags: readonly string[]): Promise<OwnPostgres>;
  };
  const server = await startPostgres(flagsOf(settings));
  // The tests stop this server, fill it and change its settings. They must never do that to the shared server.
  expect(new URL(server.url).host).not.toBe(new URL(inject('postgresUrl')).host);
  return server;
}
