/**
 * Owns the processes of one queue measurement: an enqueuer, which is this process, and workers, which are processes of
 * their own, or this process too. The system behind them is one of the adapters in this folder.
 *
 * @typedef {object} QueueSpec the queue of one measurement
 * @property {string} name used by no other measurement of the trial
 * @property {boolean} [idle] its items come one by one, so an adapter is to be set for latency, not for throughput
 * @property {number} [concurrency] how many items may run at the same time, in all workers together
 * @property {number} [workerConcurrency] the same in each worker
 *
 * @typedef {object} Post what an adapter is told: where and as what to open
 * @property {string} url
 * @property {QueueSpec} queue
 * @property {'enqueuer' | 'worker' | 'both'} role
 * @property {(input: number) => void} body what the no-op must call, before anything else, with the input of its item
 *
 * @typedef {object} OpenPost one process of a system, connected to a database that is ready, but not yet working
 * @property {() => Promise<void>} begin lets it take work; resolves when the library says that it does (workers, both)
 * @property {(input: number) => Promise<{ result?: () => Promise<unknown> }>} enqueue
 *   resolves when the item is committed (enqueuer, both); `result` waits as its library's users do, if they can
 * @property {(inputs: number[]) => Promise<unknown>} enqueueAll (enqueuer, both)
 * @property {() => Promise<unknown>} close
 *
 * @typedef {'drain' | 'serial' | 'capped' | 'idle'} Question
 *
 * @typedef {object} QueueAdapter
 * @property {string} settings printed with the results
 * @property {number} [pollMs] how often it looks for work, for a system that is not told
 * @property {Partial<Record<Question, number>>} [items] how many are enough where it is slow; 0 where it has no answer
 * @property {(post: Post) => Promise<Partial<OpenPost> & Pick<OpenPost, 'close'>>} open
 * @property {string} pendingSql whether the queue $1 holds an item that is not finished
 * @property {string} [finishedSql] how many items of the queue $1 are finished, where they are kept
 *
 * @typedef {QueueAdapter & { system: string, url: string }} QueueSystem
 */
import { startContestant } from '../contestant.mjs';
import { openRows } from '../rows.mjs';
import { balance, clock, openLedger } from './ledger.mjs';

/**
 * The enqueuer opens first and makes the schema and the queue.
 *
 * @param {QueueSystem} system
 * @param {QueueSpec} queue
 * @param {number} workerProcesses 0 for one process that is enqueuer and worker
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
     * Resolves when so many items have started, for a fleet with one worker.
     *
     * @param {number} count
     */
    reached: (count) => (workers[0] ? workers[0].ask({ do: 'awaitStarted', count }) : ledger.reached(count)),
    /** Whether the database holds an item that is not finished. */
    pending: async () => Boolean((await inspect(system.pendingSql)).pending),
    /**
     * Ends all processes and proves that each item ran once.
     *
     * @param {number} items
     * @returns {Promise<number[]>} when each item's body started
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
 * Asks again and again until it is so.
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

/** The answer of a system that has none. */
export const notMeasured = { workflows: 0, steps: 0, values: {} };

/**
 * How many items a measurement takes of a system.
 *
 * @param {QueueSystem} system
 * @param {{ question: string, items: number, quickItems: number }} amount
 * @param {boolean} quick
 */
export function itemsFor(system, { question, items, quickItems }, quick) {
  const enough = system.items?.[/** @type {Question} */ (question)] ?? items;
  return Math.min(enough, quick ? quickItems : items);
}
