import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type {} from 'vitest';
import type { TestProject } from 'vitest/node';
import { openStorage } from '../packages/holdfast/src/storage/open.js';
import { memoryFolder } from './memory-folder.js';
import { startPostgres } from './postgres-server.js';

declare module 'vitest' {
  export interface ProvidedContext {
    /** URL of the run's own Postgres server. */
    postgresUrl: string;
    /** Migrated stores to copy: hundreds of tests want one each, and migrating takes longer than most of them. */
    postgresTemplate: string;
    sqliteTemplate: string;
  }
}

const silent = { debug() {}, info() {}, warn() {}, error() {} };

const gigabyte = 2 ** 30;
/** More than the SQLite files of a run, and the databases of its Postgres, have together at any time. */
const needed = { sqlite: 2 * gigabyte, both: 4 * gigabyte };

/** One Postgres server for the whole run. fsync is off: tests kill our processes, never this server's machine. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const flags = ['-c', 'fsync=off', '-c', 'max_connections=300'];
  const server = await startPostgres(flags, memoryFolder(needed.both));
  // The test processes are started after this, and make their files there.
  process.env.TMPDIR = memoryFolder(needed.sqlite) ?? tmpdir();
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-template-'));
  const sqliteTemplate = join(folder, 'template.sqlite');
  const postgresTemplate = 'holdfast_template';
  const templateUrl = new URL(server.url);
  templateUrl.pathname = `/${postgresTemplate}`;
  await migrate(templateUrl.href);
  await migrate(`sqlite:${sqliteTemplate}`);
  project.provide('postgresUrl', server.url);
  project.provide('postgresTemplate', postgresTemplate);
  project.provide('sqliteTemplate', sqliteTemplate);
  return async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
}

async function migrate(url: string): Promise<void> {
  const options = { schema: 'dbos', migrate: true, logger: silent, applicationName: 'test' };
  await (await openStorage({ url, ...options })).close();
}
