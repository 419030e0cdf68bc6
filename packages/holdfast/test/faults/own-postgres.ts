import { expect, inject } from 'vitest';

/** A server that tests may crash, apart from the one of the whole run. See test-support/postgres-server.ts. */
export interface OwnPostgres {
  readonly url: string;
  /** Ends it at once, as a crash would. */
  crash(): Promise<void>;
  /** The same if it runs, and starts it again. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export type Settings = Readonly<Record<string, string | number>>;

export const flagsOf = (settings: Settings): string[] =>
  Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

export async function startOwnPostgres(settings: Settings): Promise<OwnPostgres> {
  // Outside the folder that is compiled as one.
  const support = '../../../../test-support/postgres-server.js';
  const { startPostgres } = (await import(support)) as {
    startPostgres(flags: readonly string[]): Promise<OwnPostgres>;
  };
  const server = await startPostgres(flagsOf(settings));
  // What follows stops it, fills it and changes its settings: never those of the server that other tests are on.
  expect(new URL(server.url).host).not.toBe(new URL(inject('postgresUrl')).host);
  return server;
}
