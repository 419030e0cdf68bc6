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
    /** Migrated databases to copy. Hundreds of tests need one each, and a migration takes longer than most tests. */
    postgresTemplate: string;
    sqliteTemplate: string;
  }
}

const silent = { debug() {}, info() {}, warn() {}, error() {} };

const gigabyte = 2 ** 30;
/** More space than the SQLite files of a run (`sqlite`), and those with the Postgres databases (`both`), ever use. */
const needed = { sqlite: 2 * gigabyte, both: 4 * gigabyte };

/** Starts one Postgres server for the whole run. fsync is off: tests kill processes, but never the machine. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // The test processes start after this line, and create their files in this folder.
  process.env.TMPDIR = memoryFolder(needed.sqlite) ?? tmpdir();
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-template-'));
  const sqliteTemplate = join(folder, 'template.sqlite');
  await migrate(`sqlite:${sqliteTemplate}`);
  project.provide('sqliteTemplate', sqliteTemplate);
  const stop = project.name === 'sqlite' ? undefined : await providePostgres(project);
  return async () => {
    await stop?.();
    await rm(folder, { recursive: true, force: true });
  };
}

/** Starts a server with a migrated database. The project `sqlite` needs none, and so starts in a moment. */
async function providePostgres(project: TestProject): Promise<() => Promise<void>> {
  const flags = ['-c', 'fsync=off', '-c', 'max_connections=300'];
  const server = await startPostgres(flags, memoryFolder(needed.both));
  const postgresTemplate = 'holdfast_template';
  const templateUrl = new URL(server.url);
  templateUrl.pathname = `/${postgresTemplate}`;
  await migrate(templateUrl.href);
  project.provide('postgresUrl', server.url);
  project.provide('postgresTemplate', postgresTemplate);
  return () => server.stop();
}

async function migrate(url: string): Promise<void> {
  const options = { schema: 'dbos', migrate: true, logger: silent, applicationName: 'test' };
  await (await openStorage({ url, ...options })).close();
}
