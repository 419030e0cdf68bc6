/**
 * Owns the fresh database of a trial. After the trial, it checks that the database contains the work that the system
 * claims to have done. Otherwise a fast system that lost rows would win.
 */
import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openSqlite } from '../../test-support/sqlite.mjs';
import { countCost } from './counters.mjs';

/**
 * @typedef {object} TrialStorage
 * @property {string} url
 * @property {() => Promise<() => Promise<import('./counters.mjs').Cost | null>>} countCost
 * @property {() => Promise<{ finished: number, steps: number }>} countRows
 * @property {() => Promise<void>} drop
 */

const countRowsSql = (/** @type {string} */ schema) => `
  select (select count(*) from ${schema}workflow_status where status = 'SUCCESS') as finished,
         (select count(*) from ${schema}operation_outputs) as steps`;

/**
 * @param {import('./postgres.mjs').PostgresServer} server
 * @param {string} database
 * @param {Record<string, string>} [settings] settings of all sessions of the database, e.g. `{ jit: 'off' }`
 * @returns {Promise<TrialStorage>}
 */
export async function createPostgresStorage(server, database, settings = {}) {
  await server.admin.query(`create database ${database}`);
  for (const [name, value] of Object.entries(settings)) {
    await server.admin.query(`alter database ${database} set ${name} = ${value}`);
  }
  // After this, no trial has to write pages of an earlier trial.
  await server.admin.query('checkpoint');
  return {
    url: server.url(database),
    countCost: () => countCost(server, database),
    async countRows() {
      const client = new pg.Client({ connectionString: server.url(database) });
      await client.connect();
      const { rows } = await client.query(countRowsSql('dbos.'));
      await client.end();
      return { finished: Number(rows[0].finished), steps: Number(rows[0].steps) };
    },
    async drop() {
      await server.admin.query(`drop database ${database} with (force)`);
    },
  };
}

/**
 * @param {string} [scheme] the scheme of the URL, which may name the SQLite library
 * @returns {Promise<TrialStorage>}
 */
export async function createSqliteStorage(scheme = 'sqlite') {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-bench-sqlite-'));
  const removeOnExit = () => rmSync(folder, { recursive: true, force: true });
  process.once('exit', removeOnExit);
  const url = `${scheme}:${join(folder, 'bench.sqlite')}`;
  return {
    url,
    countCost: async () => async () => null,
    async countRows() {
      const database = openSqlite(url, { readonly: true });
      const row = /** @type {{ finished: number, steps: number }} */ (database.prepare(countRowsSql('')).get());
      database.close();
      return row;
    },
    async drop() {
      process.off('exit', removeOnExit);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
