/** Owns the process of one member of a fleet. `child.mjs` calls it for a trial of a fleet. */
import { loadSystems } from '../catalogue.mjs';
import { clock, openLedger } from '../queue/ledger.mjs';

const ledger = openLedger();

/** @type {import('./trial.mjs').OpenMember | undefined} */
let member;

export const memberHandlers = {
  /** @param {{ system: string, url: string, role: import('./trial.mjs').Role, told: number }} request */
  async openMember({ system, url, role, told }) {
    const adapter = (await loadSystems()).find(({ name }) => name === system)?.fleet;
    member = await adapter?.open({ url, role, body });

    /** Inputs below `told` come one at a time, and the trial waits for each of them. @param {number} input */
    function body(input) {
      ledger.enter(input);
      if (input < told) process.send?.({ note: 'started' });
    }
  },

  /** Calls one of the methods of the member. @param {{ method: string, args: unknown[] }} request */
  async callMember({ method, args }) {
    const at = clock();
    // The result may be a value that cannot be sent to the parent.
    const result = await /** @type {any} */ (member)[method]?.(...args);
    return { at, result: typeof result === 'number' ? result : undefined };
  },

  /**
   * Sends messages one after the other until the time is over.
   *
   * @param {{ mailbox: string, first: number, seconds: number }} request
   */
  async sendFor({ mailbox, first, seconds }) {
    const began = clock();
    let number = first;
    while (clock() < began + seconds * 1000) await member?.send(mailbox, number++);
    return { began, ended: clock(), sent: number - first };
  },

  memberStarted: async () => ledger.count(),

  readMember: async () => ledger.page(),

  /** The CPU time of this process so far, in milliseconds. */
  async memberCpu() {
    const { user, system } = process.cpuUsage();
    return { at: clock(), ms: (user + system) / 1000 };
  },

  async closeMember() {
    await member?.close();
    return ledger.page();
  },
};
