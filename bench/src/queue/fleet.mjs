/**
 * Owns the processes of one queue measurement. This process is the enqueuer. The workers are separate processes, or
 * also this process. The measured system is one of the adapters in this folder.
 *
 * @typedef {object} QueueSpec the queue of one measurement
 * @property {string} name a name that no other measurement of the trial uses
 * @property {boolean} [idle] items come one by one, so the adapter must be tuned for latency, not for throughput
 * @property {number} [concurrency] how many items may run at the same time, in all workers together
 * @property {number} [workerConcurrency] how many items may run at the same time in each worker
 *
 * @typedef {object} Post describes the process that an adapter opens
 * @property {string} url
 * @property {QueueSpec} queue
 * @property {'enqueuer' | 'worker' | 'both'} role
 * @property {(input: number) => void} body the no-op must call this first, with the input of its item
 *
 * @typedef {object} OpenPost one process of a system, connected to a database that is ready, but not yet working
 * @property {() => Promise<void>} begin starts taking work; resolves when the library reports it (worker, both)
 * @property {(input: number) => Promise<{ result?: () => Promise<unknown> }>} enqueue
 *   resolves when the item is committed (enqueuer, both); `result` waits for the result in the way of the library, if
 *   it has one
 * @property {(inputs: number[]) => Promise<unknown>} enqueueAll (enqueuer, both)
 * @property {() => Promise<unknown>} close
 *
 * @typedef {'drain' | 'serial' | 'capped' | 'idle'} Question
 *
 * @typedef {object} QueueAdapter
 * @property {string} settings printed with the results
 * @property {number} [pollMs] the poll interval of a system without notifications
 * @property {Partial<Record<Question, number>>} [items]
 *   a smaller number of items for a slow system; 0 if the system does not support the question
 * @property {(post: Post) => Promise<Partial<OpenPost> & Pick<OpenPost, 'close'>>} open
 * @property {string} pendingSql returns whether the queue $1 has an unfinished item
 * @property {string} [finishedSql] counts the finished items of the queue $1, if the system keeps them
 *
 * @typedef {QueueAdapter & { system: string, url: string }} QueueSystem
 */
import { startContestant } from '../contestant.mjs';
import { openRows } from '../rows.mjs';
import { balance, clock, openLedger } from './ledger.mjs';

/**
 * Opens the enqueuer first, which creates the schema and the queue.
 *
 * @param {QueueSystem} system
 * @param {QueueSpec} queue
 * @param {number} workerProcesses 0 for one process that is both enqueuer and worker
 */
export async function openFleet(system, queue, workerProcesses) {
  const ledger = openLedger();
  const role = workerProcesses === 0 ? 'both' : 'enqueuer';
  const own = /** @type {OpenPost} */ (await system.open({ url: system.url, queue, role, body: ledger.enter }));
  const workers = Array.from({ length: workerProcesses }, startContestant);
  const askAll = (/** @type {Record<string, unknown>} */ request) =>
    Promise.all(workers.map((worker) => worker.ask(request)));
  await askAll({ do: 'openWorker', system: system.system, url: system.url, queue });
  const inspector = await openRows(system.url);
  const inspect = async (/** @type {string} */ text) => (await inspector.query(text, queue.name))[0];

  return {
    enqueue: own.enqueue,
    enqueueAll: own.enqueueAll,
    /** @returns {Promise<number>} the time at which the first worker could take work */
    async begin() {
      if (workers.length > 0) return Math.min(...(await askAll({ do: 'beginWorker' })));
      await own.begin();
      return clock();
    },
    /** @returns {Promise<number>} how many items have started */
    async started() {
      const counts = await askAll({ do: 'countStarted' });
      return counts.reduce((sum, count) => sum + count, ledger.count());
    },
    /**
     * Resolves when that many items have started, for a fleet with one worker.
     *
     * @param {number} count
     */
    reached: (count) => (workers[0] ? workers[0].ask({ do: 'awaitStarted', count }) : ledger.reached(count)),
    /** Returns whether the database contains an unfinished item. */
    pending: async () => Boolean((await inspect(system.pendingSql)).pending),
    /**
     * Ends all processes and proves that each item ran once.
     *
     * @param {number} items
     * @returns {Promise<number[]>} the time at which the body of each item started
     */
    async close(items) {
      const finished = system.finishedSql && Number((await inspect(system.finishedSql)).finished);
      await inspector.close();
      const pages = await askAll({ do: 'closeWorker' });
      await Promise.all(workers.map((worker) => worker.stop()));
      await own.close();
      const startedAt = balance([...pages, ledger.page()], items);
      if (finished !== undefined && finished !== items) {
        throw new Error(`Its database holds ${finished} finished items of ${items}.`);
      }
      return startedAt;
    },
  };
}

/**
 * Polls until the condition holds.
 *
 * @param {() => Promise<boolean>} check
 * @param {number} everyMs
 */
export async function until(check, everyMs) {
  const end = clock() + 120_000;
  while (!(await check())) {
    if (clock() > end) throw new Error('Its work was not done within two minutes.');
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

/** The figures of a system that does not support the question. */
export const notMeasured = { workflows: 0, steps: 0, values: {} };

/**
 * Returns how many items a measurement uses for a system.
 *
 * @param {QueueSystem} system
 * @param {{ question: string, items: number, quickItems: number }} amount
 * @param {boolean} quick
 */
export function itemsFor(system, { question, items, quickItems }, quick) {
  const enough = system.items?.[/** @type {Question} */ (question)] ?? items;
  return Math.min(enough, quick ? quickItems : items);
}
