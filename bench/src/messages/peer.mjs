/** Owns the process of the workflow that answers. `child.mjs` calls it for an exchange. */
import { loadSystems } from '../catalogue.mjs';
import { clock } from '../queue/ledger.mjs';

/** @type {number[]} */
const received = [];
/** @type {number[]} */
const answering = [];

/** @type {{ close: () => Promise<unknown> } | undefined} */
let peer;

export const peerHandlers = {
  /** @param {{ system: string, url: string, exchanges: number }} request */
  async openPeer({ system, url, exchanges }) {
    const adapter = (await loadSystems()).find(({ name }) => name === system)?.messages;
    peer = await adapter?.openPeer({
      url,
      exchanges,
      received: (exchange) => {
        received[exchange] = clock();
      },
      answering: (exchange) => {
        answering[exchange] = clock();
      },
    });
  },

  async closePeer() {
    await peer?.close();
    return { received, answering };
  },
};
