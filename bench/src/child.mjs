/**
 * Owns one measured process. The process opens one system on one database, and answers the requests of its parent over
 * IPC, one at a time. `contestant.mjs` is the parent's side. Measurements of queues, messages, waiting workflows,
 * failovers and recoveries open the system themselves, and start processes like this one as workers, peers or victims.
 *
 * @typedef {{ id: number } & (
 *   | { do: 'open', system: string, url: string, uses: import('./catalogue.mjs').Side }
 *   | { do: 'measure', workload: string, case: number, seconds: number, quick: boolean }
 *   | { do: 'close' }
 *   | { do: 'openWorker', system: string, url: string, queue: import('./queue/fleet.mjs').QueueSpec }
 *   | { do: 'awaitStarted', count: number }
 *   | { do: 'openPeer', system: string, url: string, exchanges: number }
 *   | { do: 'openExecutor', system: string, post: Omit<import('./failover/failover.mjs').Post, 'step'>, name: string, diary: string }
 *   | { do: 'openVictim', system: string, url: string, ids: string[] }
 *   | { do: 'openSuccessor', system: string, url: string }
 *   | { do: 'openMember', system: string, url: string, role: import('./fleet/trial.mjs').Role, told: number }
 *   | { do: 'callMember', method: string, args: unknown[] }
 *   | { do: 'sendFor', mailbox: string, first: number, seconds: number }
 *   | { do: 'memberStarted' | 'readMember' | 'memberCpu' | 'closeMember' }
 *   | { do: 'countSteps' | 'beginWorker' | 'countStarted' | 'closeWorker' | 'closePeer' })} Request
 */
import { loadSystems, loadWorkloads } from './catalogue.mjs';
import { executorHandlers } from './failover/executor.mjs';
import { memberHandlers } from './fleet/member.mjs';
import { peerHandlers } from './messages/peer.mjs';
import { workerHandlers } from './queue/worker.mjs';
import { recoveryHandlers } from './recovery/executor.mjs';

/** @type {any} an OpenSystem, or the side of a system that the workload uses */
let subject;

const handlers = {
  /** @param {{ system: string, url: string, uses: import('./catalogue.mjs').Side }} request */
  async open({ system, url, uses }) {
    const found = (await loadSystems()).find(({ name }) => name === system);
    subject = uses === 'open' ? await found?.open?.({ url }) : { ...found?.[uses], system, url };
  },

  /** @param {{ workload: string, case: number, seconds: number, quick: boolean }} request */
  async measure({ workload, case: index, seconds, quick }) {
    const found = (await loadWorkloads()).find(({ name }) => name === workload);
    if (!found || !subject) throw new Error(`Nothing to measure: ${workload}`);
    const before = process.cpuUsage();
    const measured = await found.cases[index].measure(subject, { seconds, quick });
    const used = process.cpuUsage(before);
    return { ...measured, cpuMs: (used.user + used.system) / 1000 };
  },

  async close() {
    await subject?.close?.();
  },

  ...workerHandlers,
  ...peerHandlers,
  ...executorHandlers,
  ...recoveryHandlers,
  ...memberHandlers,
};

process.on('message', async (/** @type {any} */ { id, do: name, ...request }) => {
  try {
    process.send?.({ id, result: await handlers[/** @type {keyof typeof handlers} */ (name)](request) });
  } catch (error) {
    process.send?.({ id, error: error instanceof Error ? error.message : String(error) });
  }
});
process.on('disconnect', () => process.exit()); // The parent is gone.
process.on('SIGINT', () => {}); // Ctrl-C reaches the whole process group; only the parent reacts.
