/**
 * Owns what a measured part cost the Postgres server. All counters are exact at the moment of reading. The counters of
 * pg_stat_database are not: a backend may report its share up to ten seconds later. Therefore commits are counted as
 * used transaction IDs. A transaction that writes or locks uses one. A read-only transaction uses none, and costs no
 * fsync.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/**
 * @typedef {object} Cost
 * @property {number | null} statements null if the server cannot count them
 * @property {number} commits
 * @property {number} walBytes
 * @property {number} diskBytes the growth of the database: tables and indexes, before any vacuum
 * @property {number | null} cpuMs of all server processes; null if there is no /proc
 */

/**
 * Starts counting for one database. WAL, commits and CPU are of the whole server, which has no other work.
 *
 * @param {import('./postgres.mjs').PostgresServer} server
 * @param {string} database
 * @returns {Promise<() => Promise<Cost>>} ends the count and resolves with the cost
 */
export async function countCost(server, database) {
  const { admin, countsStatements, pid } = server;
  const databaseId = (await admin.query('select oid from pg_database where datname = $1', [database])).rows[0].oid;
  if (countsStatements) await admin.query('select pg_stat_statements_reset(0, $1, 0)', [databaseId]);
  const before = await readPosition(admin, database);
  const cpuBefore = serverCpuMs(pid);
  return async () => {
    const cpuAfter = serverCpuMs(pid);
    const after = await readPosition(admin, database);
    const statements = countsStatements
      ? await admin.query('select coalesce(sum(calls), 0) as n from pg_stat_statements where dbid = $1', [databaseId])
      : null;
    return {
      statements: statements && Number(statements.rows[0].n),
      commits: after.xid - before.xid,
      walBytes: after.wal - before.wal,
      diskBytes: after.disk - before.disk,
      cpuMs: cpuAfter === null || cpuBefore === null ? null : cpuAfter - cpuBefore,
    };
  };
}

/** @param {import('pg').Client} admin @param {string} database */
async function readPosition(admin, database) {
  const { rows } = await admin.query(
    `select pg_snapshot_xmax(pg_current_snapshot())::text as xid, pg_current_wal_insert_lsn() - '0/0'::pg_lsn as wal,
      pg_database_size($1) as disk`,
    [database],
  );
  return { xid: Number(rows[0].xid), wal: Number(rows[0].wal), disk: Number(rows[0].disk) };
}

let ticksPerSecond = 0;

/**
 * Returns the CPU time of the postmaster, its living children (all server processes), and its ended children.
 *
 * @param {number} postmaster
 */
function serverCpuMs(postmaster) {
  if (process.platform !== 'linux') return null;
  ticksPerSecond ||= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  let ticks = 0;
  for (const entry of readdirSync('/proc')) {
    const stat = /^\d+$/.test(entry) ? readStat(entry) : undefined;
    if (!stat) continue;
    if (Number(entry) === postmaster) ticks += stat.own + stat.reaped;
    else if (stat.parent === postmaster) ticks += stat.own;
  }
  return (ticks / ticksPerSecond) * 1000;
}

/** @param {string} pid */
function readStat(pid) {
  let text;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined; // The process ended after the folder was listed.
  }
  // The command name comes first, in parentheses, and may contain spaces. Field 3 of proc(5) is at index 0 here.
  const field = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const sum = (/** @type {number} */ a, /** @type {number} */ b) => Number(field[a]) + Number(field[b]);
  return { parent: Number(field[1]), own: sum(11, 12), reaped: sum(13, 14) };
}
