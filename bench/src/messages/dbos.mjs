/** DBOS's side of an exchange of messages. Both processes are launched apps: its client has no notifications. */
import { configuredDbos } from '../dbos.mjs';

const peerId = 'peer';

/**
 * @param {{ pollingIntervalMs?: number }} tuning how often a wait polls
 * @returns {Omit<import('./exchange.mjs').MessagesAdapter, 'settings'>}
 */
export function dbosMessages({ pollingIntervalMs }) {
  const waits = { timeoutSeconds: 60, pollingIntervalMs };
  return {
    async openCaller({ url }) {
      const { DBOS } = await configuredDbos(url);
      await DBOS.launch();
      return {
        send: (exchange) => DBOS.send(peerId, exchange, 'questions'),
        answer: async (exchange) => /** @type {number} */ (await DBOS.getEvent(peerId, `answer ${exchange}`, waits)),
        close: () => DBOS.shutdown(),
      };
    },

    async openPeer({ url, exchanges, received, answering }) {
      const { DBOS } = await configuredDbos(url);
      const answerAll = DBOS.registerWorkflow(
        async () => {
          for (let exchange = 0; exchange < exchanges; exchange++) {
            const question = await DBOS.recv('questions', waits);
            received(exchange);
            answering(exchange);
            await DBOS.setEvent(`answer ${exchange}`, question);
          }
        },
        { name: 'answerAll' },
      );
      await DBOS.launch();
      const handle = await DBOS.startWorkflow(answerAll, { workflowID: peerId })();
      return {
        async close() {
          await handle.getResult();
          await DBOS.shutdown();
        },
      };
    },
  };
}
