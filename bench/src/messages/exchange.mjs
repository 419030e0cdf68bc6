/**
 * Owns how an exchange of messages between two processes is timed. The peer, a workflow in another process, repeatedly
 * receives a message and answers by an event. This process sends the message and waits for the event, one exchange at a
 * time.
 *
 * @typedef {object} Peer describes the workflow that an adapter runs
 * @property {string} url
 * @property {number} exchanges how many there will be
 * @property {(exchange: number) => void} received must be called as soon as the workflow has the message
 * @property {(exchange: number) => void} answering must be called just before the event is set
 *
 * @typedef {object} OpenCaller
 * @property {(exchange: number) => Promise<unknown>} send resolves when the message is committed
 * @property {(exchange: number) => Promise<number>} answer waits for the event of the exchange; resolves with its value
 * @property {() => Promise<unknown>} close
 *
 * @typedef {object} MessagesAdapter
 * @property {string} settings printed with the results
 * @property {(caller: { url: string }) => Promise<OpenCaller>} openCaller is called first, and creates the schema
 * @property {(peer: Peer) => Promise<{ close: () => Promise<unknown> }>} openPeer resolves when the workflow has started
 *
 * @typedef {MessagesAdapter & { system: string, url: string }} MessagesSystem
 */
import { startContestant } from '../contestant.mjs';
import { percentile } from '../drive.mjs';
import { clock } from '../queue/ledger.mjs';

/** The pause before an exchange, in which both become idle. It is random, so no timer can be in step with it. */
const pauseMs = { least: 5, most: 35 };

/**
 * @param {MessagesSystem} system
 * @param {number} exchanges
 * @returns {Promise<import('../catalogue.mjs').Measured>}
 */
export async function measureExchanges(system, exchanges) {
  const warmUp = Math.ceil(exchanges / 10);
  const all = warmUp + exchanges;
  const caller = await system.openCaller({ url: system.url });
  const peer = startContestant();
  try {
    await peer.ask({ do: 'openPeer', system: system.system, url: system.url, exchanges: all });
    /** @type {{ sent: number, seen: number }[]} */
    const own = [];
    for (let exchange = 0; exchange < all; exchange++) own.push(await converse(caller, exchange));
    /** @type {{ received: number[], answering: number[] }} */
    const { received, answering } = await peer.ask({ do: 'closePeer' });
    await caller.close();
    if (received.length !== all) throw new Error(`It received ${received.length} of ${all} messages.`);
    const took = (/** @type {(at: { sent: number, seen: number }, exchange: number) => number} */ part) =>
      own
        .map(part)
        .slice(warmUp)
        .sort((a, b) => a - b);
    return {
      workflows: exchanges,
      steps: 0,
      values: {
        ...percentiles(
          'send',
          took(({ sent }, exchange) => received[exchange] - sent),
        ),
        ...percentiles(
          'set',
          took(({ seen }, exchange) => seen - answering[exchange]),
        ),
        ...percentiles(
          'both',
          took(({ sent, seen }) => seen - sent),
        ),
      },
    };
  } finally {
    await peer.stop();
  }
}

/**
 * The caller starts waiting for the answer before it sends, so that it cannot miss the answer.
 *
 * @param {OpenCaller} caller
 * @param {number} exchange
 */
async function converse(caller, exchange) {
  const answer = caller.answer(exchange);
  await pause();
  const sent = clock();
  await caller.send(exchange);
  const value = await answer;
  const seen = clock();
  if (value !== exchange) throw new Error(`The answer to ${exchange} was ${value}.`);
  return { sent, seen };
}

function pause() {
  const ms = pauseMs.least + Math.random() * (pauseMs.most - pauseMs.least);
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * @param {string} key
 * @param {number[]} sorted
 */
function percentiles(key, sorted) {
  return { [`${key}P50`]: percentile(sorted, 0.5), [`${key}P99`]: percentile(sorted, 0.99) };
}
