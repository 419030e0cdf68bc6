/**
 * Reads the workflows of a failover from the database, and proves that no workflow was lost and that no stored step ran
 * again. The tables are those that Holdfast and DBOS share.
 *
 * @typedef {{ workflow: string, step: number, output: string }} StepRow
 *
 * @typedef {object} Rows
 * @property {(ids: string[], until: number) => Promise<number | undefined>} finished
 *   the time at which all of them had succeeded; undefined if they had not by `until`
 * @property {(ids: string[]) => Promise<StepRow[]>} steps
 * @property {() => Promise<void>} close
 */
import { clock } from '../queue/ledger.mjs';
import { openRows as openDatabase } from '../rows.mjs';

/**
 * @param {string} url
 * @returns {Promise<Rows>}
 */
export async function openRows(url) {
  const { query, list, close } = await openDatabase(url);
  const select = (/** @type {string} */ columns, /** @type {string} */ table, /** @type {string[]} */ ids, more = '') =>
    query(`select ${columns} from dbos.${table} where workflow_uuid in ${list} ${more}`, JSON.stringify(ids));
  return {
    close,
    async finished(ids, until) {
      while (clock() < until) {
        const [{ count }] = await select('count(*) as count', 'workflow_status', ids, "and status = 'SUCCESS'");
        if (Number(count) === ids.length) return clock();
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      return undefined;
    },
    async steps(ids) {
      const found = await select('workflow_uuid, function_id, output', 'operation_outputs', ids);
      return found.map((row) => ({ workflow: row.workflow_uuid, step: row.function_id, output: row.output }));
    },
  };
}

/**
 * Checks that each step of each workflow has one row, which stores the last run of the step. If the row stored an
 * earlier run, the step would have run again after it was stored.
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
