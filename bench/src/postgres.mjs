/**
 * Owns the Postgres server of a benchmark run. The server starts on a free port with default settings (fsync on), has a
 * fresh database for each trial, and is removed at the end. `counters.mjs` counts the work of the server.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { launchPostgres } from '../../test-support/launch-postgres.mjs';

/**
 * @typedef {object} PostgresServer
 * @property {pg.Client} admin connected to the maintenance database, which no measured system uses
 * @property {number} pid of the postmaster
 * @property {string} version
 * @property {boolean} compiles whether the server compiles expensive statements (JIT) unless a setting turns that off
 * @property {boolean} countsStatements whether the server has pg_stat_statements
 * @property {(database: string) => string} url
 * @property {() => Promise<void>} stop
 */

/**
 * @param {readonly string[]} flags additional settings of the server
 * @returns {Promise<PostgresServer>}
 */
export async function startPostgres(flags) {
  try {
    return await startServer(flags, true);
  } catch {
    // A build without the extension does not start with it. Everything else can still be measured.
    return startServer(flags, false);
  }
}

/**
 * @param {readonly string[]} flags
 * @param {boolean} countsStatements
 * @returns {Promise<PostgresServer>}
 */
async function startServer(flags, countsStatements) {
  const counting = countsStatements ? ['-c', 'shared_preload_libraries=pg_stat_statements'] : [];
  const server = await launchPostgres({ flags: [...flags, ...counting] });
  const { url } = server;
  const admin = await connect(url('postgres'));
  if (countsStatements) await admin.query('create extension pg_stat_statements');
  const { rows } = await admin.query('show server_version');
  const jit = await admin.query("select pg_jit_available() and current_setting('jit')::bool as compiles");
  return {
    admin,
    pid: Number((await readFile(join(server.dataFolder, 'postmaster.pid'), 'utf8')).split('\n')[0]),
    version: rows[0].server_version,
    compiles: jit.rows[0].compiles,
    countsStatements,
    url,
    stop: async () => {
      await admin.end();
      await server.stop();
    },
  };
}

/** @param {string} url */
async function connect(url) {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {}); // If Ctrl-C ends the server, no stack trace is needed.
  await client.connect();
  return client;
}
