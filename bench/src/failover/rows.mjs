/**
 * Owns what the database says about the workflows of a failover, and the proof that nothing was lost or done again after
 * it was on record. The tables are those that Holdfast and DBOS share.
 *
 * @typedef {{ workflow: string, step: number, output: string }} StepRow
 *
 * @typedef {object} Rows
 * @property {(ids: string[], until: number) => Promise<number | undefined>} finished
 *   when all of them have succeeded; undefined if they have not by `until`
 * @property {(ids: string[]) => Promise<StepRow[]>} steps
 * @property {() => Promise<void>} close
 */
import pg from 'pg';
import { openSqlite } from '../../../test-support/sqlite.mjs';
import { clock } from '../queue/ledger.mjs';

/**
 * @param {string} url
 * @returns {Promise<Rows>}
 */
export async function openRows(url) {
  const { query, close } = url.startsWith('sqlite') ? openFile(url) : await openPostgres(url);
  return {
    close,
    async finished(ids, until) {
      while (clock() < until) {
        const [{ count }] = await query('count(*) as count', 'workflow_status', `and status = 'SUCCESS'`, ids);
        if (Number(count) === ids.length) return clock();
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      return undefined;
    },
    async steps(ids) {
      const found = await query('workflow_uuid, function_id, output', 'operation_outputs', '', ids);
      return found.map((row) => ({ workflow: row.workflow_uuid, step: row.function_id, output: row.output }));
    },
  };
}

/** @typedef {(columns: string, table: string, more: string, ids: string[]) => Promise<any[]>} Query of rows by ID */

/** @param {string} url */
function openFile(url) {
  const database = openSqlite(url, { readonly: true });
  /** @type {Query} */
  const query = async (columns, table, more, ids) =>
    database
      .prepare(`select ${columns} from ${table} where workflow_uuid in (select value from json_each(?)) ${more}`)
      .all(JSON.stringify(ids));
  return { query, close: async () => void database.close() };
}

/** @param {string} url */
async function openPostgres(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  /** @type {Query} */
  const query = async (columns, table, more, ids) =>
    (await client.query(`select ${columns} from dbos.${table} where workflow_uuid = any($1) ${more}`, [ids])).rows;
  return { query, close: () => client.end() };
}

/**
 * Each step of each workflow has one row, which is of the last run that there was of it: an earlier one would mean that the
 * step was run again after it was on record.
 *
 * @param {StepRow[]} rows
 * @param {import('./diary.mjs').Entry[]} entries
 * @param {{ ids: string[], steps: number }} expected
 */
export function checkRows(rows, entries, { ids, steps }) {
  if (rows.length !== ids.length * steps) {
    throw new Error(`${ids.length} workflows have ${rows.length} recorded steps instead of ${ids.length * steps}.`);
  }
  /** @type {Map<string, import('./diary.mjs').Entry>} */
  const lastRuns = new Map();
  for (const entry of entries.toSorted((a, b) => a.at - b.at)) lastRuns.set(`${entry.workflow} ${entry.step}`, entry);
  if (lastRuns.size !== ids.length * steps) throw new Error(`Only ${lastRuns.size} steps ran.`);
  const recorded = new Set(rows.map(({ workflow, output }) => `${workflow} ${/e\d+\.\d+/.exec(output)?.[0]}`));
  for (const { workflow, step, run } of lastRuns.values()) {
    if (recorded.has(`${workflow} ${run}`)) continue;
    throw new Error(`Step ${step} of workflow "${workflow}" ran again (${run}) after it was on record.`);
  }
}
