/**
 * Owns the Postgres server of a benchmark run: started here on a free port with default settings (fsync on), a fresh
 * database for each trial, gone at the end. What the server did is counted in `counters.mjs`.
 */
import { rmSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { findEmbeddedPostgres } from '../../test-support/embedded-postgres.mjs';

/**
 * @typedef {object} PostgresServer
 * @property {pg.Client} admin connected to the maintenance database, which no measured system uses
 * @property {number} pid of the postmaster
 * @property {string} version
 * @property {boolean} countsStatements whether the server has pg_stat_statements
 * @property {(database: string) => string} url
 * @property {() => Promise<void>} stop
 */

/** @returns {Promise<PostgresServer>} */
export async function startPostgres() {
  try {
    return await startServer(['-c', 'shared_preload_libraries=pg_stat_statements']);
  } catch {
    // A build without the extension refuses to start with it: measure everything else.
    return startServer([]);
  }
}

/**
 * @param {string[]} flags
 * @returns {Promise<PostgresServer>}
 */
async function startServer(flags) {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-bench-pg-'));
  // Ctrl-C ends the process through embedded-postgres's exit hook, which stops the server but not this function.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  // Postgres refuses to run as root, so embedded-postgres starts it as another user, who must get in here.
  await chmod(folder, 0o755);
  const port = await freePort();
  /** @type {string[]} */
  const log = [];
  const { default: EmbeddedPostgres } = await import(await findEmbeddedPostgres());
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    user: 'postgres',
    password: 'postgres',
    port,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: flags,
    onLog: (message) => log.push(String(message)),
    onError: (message) => log.push(String(message)),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    throw new Error(`Postgres did not start: ${error}\n${log.slice(-20).join('\n')}`);
  }
  const url = (/** @type {string} */ database) => `postgres://postgres:postgres@127.0.0.1:${port}/${database}`;
  const admin = await connect(url('postgres'));
  if (flags.length > 0) await admin.query('create extension pg_stat_statements');
  const { rows } = await admin.query('show server_version');
  return {
    admin,
    pid: Number((await readFile(join(folder, 'data', 'postmaster.pid'), 'utf8')).split('\n')[0]),
    version: rows[0].server_version,
    countsStatements: flags.length > 0,
    url,
    stop: async () => {
      await admin.end();
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** @param {string} url */
async function connect(url) {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {}); // The server going away on Ctrl-C is not worth a stack trace.
  await client.connect();
  return client;
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
