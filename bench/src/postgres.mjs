/**
 * Owns the Postgres server of a benchmark run: started here on a free port with default settings (fsync on), a fresh
 * database for each trial, gone at the end. What the server did is counted in `counters.mjs`.
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
 * @property {boolean} compiles whether it compiles expensive statements (JIT) where nothing switches that off
 * @property {boolean} countsStatements whether the server has pg_stat_statements
 * @property {(database: string) => string} url
 * @property {() => Promise<void>} stop
 */

/**
 * @param {readonly string[]} flags what else is set for the server
 * @returns {Promise<PostgresServer>}
 */
export async function startPostgres(flags) {
  try {
    return await startServer(flags, true);
  } catch {
    // A build without the extension refuses to start with it: measure everything else.
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
  client.on('error', () => {}); // The server going away on Ctrl-C is not worth a stack trace.
  await client.connect();
  return client;
}
