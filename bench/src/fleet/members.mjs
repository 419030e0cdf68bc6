/** Owns the processes of one fleet, for the trial. */
import { startContestant } from '../contestant.mjs';
import { workerPrefix } from './gauges.mjs';

/** The number of processes that neither send nor receive. */
const bystanderCount = 2;

/**
 * @param {object} fleet
 * @param {string} fleet.url
 * @param {import('../catalogue.mjs').System} fleet.system
 * @param {number} fleet.workers
 * @param {number} fleet.told the trial waits for the start of each item with a lower input
 */
export async function openFleet({ url, system, workers: workerCount, told }) {
  const starter = start('starter', 'starter');
  const workers = named(workerCount, (i) => start('worker', `${workerPrefix}${i}`));
  const bystanders = named(system.fleet?.onlySends ? 0 : bystanderCount, (i) => start('bystander', `bystander ${i}`));
  const all = [starter, ...workers, ...bystanders];
  let noteStart = () => {};
  for (const worker of workers) worker.onNote(() => noteStart());
  try {
    await open(starter);
    await Promise.all([...workers, ...bystanders].map(open));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    workers,
    /**
     * @param {string} method of an OpenMember
     * @param {unknown[]} args
     * @returns {Promise<{ at: number, result?: number }>} `at`: when it was called
     */
    starter: (method, ...args) => starter.ask({ do: 'callMember', method, args }),
    /** Resolves when the next item starts in any worker. @returns {Promise<void>} */
    nextStart: () =>
      new Promise((resolve) => {
        noteStart = resolve;
      }),
    /** Counts the started items. @returns {Promise<number>} */
    async started() {
      const counts = await Promise.all(workers.map((worker) => worker.ask({ do: 'memberStarted' })));
      return counts.reduce((sum, count) => sum + count, 0);
    },
    /** Returns the items that each worker has run so far. @returns {Promise<import('../queue/ledger.mjs').Page[]>} */
    pages: () => Promise.all(workers.map((worker) => worker.ask({ do: 'readMember' }))),
    /** @returns {Promise<{ at: number, ms: number }[]>} */
    cpuOfBystanders: () => Promise.all(bystanders.map((each) => each.ask({ do: 'memberCpu' }))),
    close: () => Promise.all(all.map((each) => each.ask({ do: 'closeMember' }))),
    stop,
  };

  /** @param {import('./trial.mjs').Role} role @param {string} name */
  function start(role, name) {
    return { role, name, ...startContestant(system) };
  }

  /** @param {ReturnType<typeof start>} member */
  function open({ role, name, ask }) {
    // The name identifies the sessions of this member on the server.
    const own = `${url}?application_name=${encodeURIComponent(name)}`;
    return ask({ do: 'openMember', system: system.name, url: own, role, told });
  }

  async function stop() {
    await Promise.all(all.map((each) => each.stop()));
  }
}

/**
 * @template T
 * @param {number} count
 * @param {(number: number) => T} make gets the numbers from 1 on
 */
function named(count, make) {
  return Array.from({ length: count }, (_, i) => make(i + 1));
}
