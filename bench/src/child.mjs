/**
 * Owns one measured process: it opens one system on one database and does what the parent asks, one request at a time,
 * over IPC. `contestant.mjs` is the parent's side of it.
 *
 * @typedef {{ id: number } & (
 *   | { do: 'open', system: string, url: string }
 *   | { do: 'measure', workload: string, case: number, seconds: number }
 *   | { do: 'close' })} Request
 */
import { loadSystems, loadWorkloads } from './catalogue.mjs';

/** @type {import('./catalogue.mjs').OpenSystem | undefined} */
let open;

const handlers = {
  /** @param {{ system: string, url: string }} request */
  async open({ system, url }) {
    const found = (await loadSystems()).find(({ name }) => name === system);
    open = await found?.open({ url });
  },

  /** @param {{ workload: string, case: number, seconds: number }} request */
  async measure({ workload, case: index, seconds }) {
    const found = (await loadWorkloads()).find(({ name }) => name === workload);
    if (!found || !open) throw new Error(`Nothing to measure: ${workload}`);
    const before = process.cpuUsage();
    const measured = await found.cases[index].measure(open, seconds);
    const used = process.cpuUsage(before);
    return { ...measured, cpuMs: (used.user + used.system) / 1000 };
  },

  async close() {
    await open?.close();
  },
};

process.on('message', async (/** @type {any} */ { id, do: name, ...request }) => {
  try {
    process.send?.({ id, result: await handlers[/** @type {keyof typeof handlers} */ (name)](request) });
  } catch (error) {
    process.send?.({ id, error: error instanceof Error ? error.message : String(error) });
  }
});
process.on('disconnect', () => process.exit()); // The parent is gone.
process.on('SIGINT', () => {}); // Ctrl-C reaches the whole group; the parent decides, so that no stack traces fly.
