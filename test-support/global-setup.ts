import type {} from 'vitest';
import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres-server.js';

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string;
  }
}

/** One Postgres server for the whole run. fsync is off: tests kill our processes, never this server's machine. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres(['-c', 'fsync=off', '-c', 'max_connections=300']);
  project.provide('postgresUrl', server.url);
  return () => server.stop();
}
