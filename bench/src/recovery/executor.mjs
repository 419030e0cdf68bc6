/** Owns the two processes of a recovery: the killed one, and the one that continues. `child.mjs` calls it. */
import { loadSystems } from '../catalogue.mjs';

const ran = { first: 0, second: 0 };

/** @param {string} name */
async function adapterOf(name) {
  const adapter = (await loadSystems()).find((each) => each.name === name)?.recovery;
  if (!adapter) throw new Error(`${name} takes no part in recoveries.`);
  return adapter;
}

/** @param {number} input */
async function first(input) {
  ran.first++;
  return input;
}

export const recoveryHandlers = {
  /**
   * Resolves when all workflows run their second step, which never ends.
   *
   * @param {{ system: string, url: string, ids: string[] }} request
   */
  async openVictim({ system, url, ids }) {
    const adapter = await adapterOf(system);
    await new Promise((resolve, reject) => {
      const second = () => {
        if (++ran.second === ids.length) resolve(undefined);
        return new Promise(() => {});
      };
      const start = async () => {
        const startOne = await adapter.openExecutor({ url, first, second });
        for (let from = 0; from < ids.length; from += 100) {
          await Promise.all(ids.slice(from, from + 100).map((id, i) => startOne(id, from + i)));
        }
      };
      start().catch(reject);
    });
  },

  /** @param {{ system: string, url: string }} request */
  async openSuccessor({ system, url }) {
    const second = async (/** @type {number} */ input) => {
      ran.second++;
      return input;
    };
    await (await adapterOf(system)).openExecutor({ url, first, second });
  },

  countSteps: async () => ran,
};
