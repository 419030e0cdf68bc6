/** Holdfast's side of an exchange of messages, through its public API. */
import { launchBench } from '../holdfast.mjs';
import { library } from '../library.mjs';

const peerId = 'peer';

/** @type {import('./exchange.mjs').MessagesAdapter} */
export const holdfastMessages = {
  settings: 'its defaults',

  async openCaller({ url }) {
    const { event, topic } = await library();
    const questions = topic('questions');
    const app = await launchBench(url, []);
    return {
      send: (exchange) => questions.send(peerId, exchange),
      answer: async (exchange) => /** @type {number} */ (await event(`answer ${exchange}`).get(peerId)),
      close: () => app.shutdown(),
    };
  },

  async openPeer({ url, exchanges, received, answering }) {
    const { event, topic, workflow } = await library();
    const questions = topic('questions');
    const answerAll = workflow('answerAll', async () => {
      for (let exchange = 0; exchange < exchanges; exchange++) {
        const question = await questions.receive();
        received(exchange);
        answering(exchange);
        await event(`answer ${exchange}`).set(question);
      }
    });
    const app = await launchBench(url, [answerAll]);
    const handle = await answerAll.with({ id: peerId }).start();
    return {
      async close() {
        await handle.result();
        await app.shutdown();
      },
    };
  },
};
