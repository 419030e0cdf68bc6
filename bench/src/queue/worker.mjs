/** Owns a process that is only a worker. `child.mjs` calls it for a fleet. */
import { loadSystems } from '../catalogue.mjs';
import { clock, openLedger } from './ledger.mjs';

const ledger = openLedger();

/** @type {import('./fleet.mjs').OpenPost | undefined} */
let worker;

export const workerHandlers = {
  /** @param {{ system: string, url: string, queue: import('./fleet.mjs').QueueSpec }} request */
  async openWorker({ system, url, queue }) {
    const adapter = (await loadSystems()).find(({ name }) => name === system)?.queue;
    worker = /** @type {typeof worker} */ (await adapter?.open({ url, queue, role: 'worker', body: ledger.enter }));
  },

  async beginWorker() {
    await worker?.begin();
    return clock();
  },

  countStarted: async () => ledger.count(),

  /** @param {{ count: number }} request */
  awaitStarted: ({ count }) => ledger.reached(count),

  async closeWorker() {
    await worker?.close();
    return ledger.page();
  },
};
