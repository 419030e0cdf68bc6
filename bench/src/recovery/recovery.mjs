/**
 * Owns how recovery is measured. An executor runs thousands of workflows, all in their second step, and is killed with
 * SIGKILL. A new process with the same executor ID continues them. The time runs from the request to continue until all
 * workflows have succeeded.
 *
 * @typedef {object} Work describes the executor that an adapter opens
 * @property {string} url
 * @property {(input: number) => Promise<number>} first what the first step of each workflow does and returns
 * @property {(input: number) => Promise<number>} second what the second step of each workflow does and returns
 *
 * @typedef {object} RecoveryAdapter
 * @property {(work: Work) => Promise<(id: string, input: number) => Promise<unknown>>} openExecutor
 *   always under the same executor ID; resolves with a function that starts a workflow
 *
 * @typedef {RecoveryAdapter & { system: string, url: string }} RecoverySystem
 */
import { startContestant } from '../contestant.mjs';
import { openRows } from '../failover/rows.mjs';
import { clock } from '../queue/ledger.mjs';

const patienceMs = 120_000;

/**
 * @param {RecoverySystem} system
 * @param {number} count the number of workflows
 * @returns {Promise<import('../catalogue.mjs').Measured>}
 */
export async function measureRecovery({ system, url }, count) {
  const ids = Array.from({ length: count }, (_, input) => `recovered-${input}`);
  const victim = startContestant();
  await victim.ask({ do: 'openVictim', system, url, ids });
  await victim.stop();

  const rows = await openRows(url);
  const successor = startContestant();
  try {
    await successor.ask({ do: 'countSteps' }); // The process is up now. The time to load the system counts.
    const begunAt = clock();
    await successor.ask({ do: 'openSuccessor', system, url });
    const doneAt = await rows.finished(ids, begunAt + patienceMs);
    const ran = await successor.ask({ do: 'countSteps' });
    if (doneAt === undefined) throw new Error(`Not all of ${count} workflows were done after 120 s.`);
    if (ran.first !== 0) throw new Error(`${ran.first} steps ran again that were on record.`);
    if (ran.second !== count) throw new Error(`The second step ran ${ran.second} times for ${count} workflows.`);
    return { workflows: count, steps: 2 * count, values: { seconds: (doneAt - begunAt) / 1000 } };
  } finally {
    await Promise.all([successor.stop(), rows.close()]);
  }
}
