/** Owns what a trial of a fleet reads from the server: statements, MultiXacts, sessions, and the time of a commit. */
import pg from 'pg';
import { percentile } from '../drive.mjs';
import { clock } from '../queue/ledger.mjs';

/** The prefix of the names of worker sessions. */
export const workerPrefix = 'worker ';

/** How often sessions are counted while the fleet is busy. */
const sampleMs = 100;

/**
 * @param {import('../postgres.mjs').PostgresServer} server
 * @param {string} database
 */
export function openGauges({ admin, countsStatements }, database) {
  return {
    /** Reads how many statements the database has answered, and how many MultiXacts the server has made so far. */
    async read() {
      // The age of the first MultiXact is the number of later ones. It is exact at any moment.
      const { rows } = await admin.query("select mxid_age('1')::int as multixacts");
      const statements = countsStatements
        ? await admin.query(
            `select coalesce(sum(calls), 0)::int as n from pg_stat_statements
             where dbid = (select oid from pg_database where datname = $1)`,
            [database],
          )
        : undefined;
      return { at: clock(), multixacts: rows[0].multixacts, statements: statements?.rows[0].n ?? Number.NaN };
    },

    /** Counts the sessions of each worker. @returns {Promise<number[]>} */
    async sessions() {
      const { rows } = await admin.query(
        `select count(*)::int as n from pg_stat_activity
         where datname = $1 and application_name like $2 group by application_name`,
        [database, `${workerPrefix}%`],
      );
      return rows.map(({ n }) => n);
    },

    /** Counts sessions repeatedly until it is ended, and returns the maximum of one worker. */
    watchSessions() {
      let most = 0;
      let isOver = false;
      const watched = (async () => {
        while (!isOver) {
          most = Math.max(most, ...(await this.sessions()));
          await new Promise((resolve) => setTimeout(resolve, sampleMs));
        }
      })();
      return async () => {
        isOver = true;
        await watched;
        return most;
      };
    },
  };
}

/**
 * Measures the commit of one hand-written row, in milliseconds. Rows with and without the delay alternate, which proves
 * the delay even on a busy machine.
 *
 * @param {string} url
 * @param {number} commitMs
 */
export async function measureCommit(url, commitMs) {
  const clients = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })];
  await Promise.all(clients.map((client) => client.connect()));
  const [delayed, prompt] = clients;
  await prompt.query('set commit_delay = 0; create table public.bench_commit (n int)');
  const took = { delayed: /** @type {number[]} */ ([]), prompt: /** @type {number[]} */ ([]) };
  for (let n = 0; n < 50; n++) {
    took.prompt.push(await insertRow(prompt, n));
    took.delayed.push(await insertRow(delayed, n));
  }
  await prompt.query('drop table public.bench_commit');
  await Promise.all(clients.map((client) => client.end()));
  const [slow, quick] = [took.delayed, took.prompt].map((all) =>
    percentile(
      all.toSorted((a, b) => a - b),
      0.5,
    ),
  );
  if (slow - quick >= commitMs * 0.8 || commitMs === 0) return slow;
  throw new Error(`A commit takes ${slow.toFixed(1)} ms, without the delay of ${commitMs} ms ${quick.toFixed(1)} ms.`);
}

/** @param {pg.Client} client @param {number} n */
async function insertRow(client, n) {
  const began = clock();
  await client.query('insert into public.bench_commit values ($1)', [n]);
  return clock() - began;
}
