/**
 * Owns how the memory of waiting workflows is measured: so many of them in this process, all known by the database to
 * wait, and what the process holds then beyond what it held before.
 *
 * @typedef {object} OpenWaiting
 * @property {(kind: 'receive' | 'sleep') => Promise<unknown>} start one workflow that waits for a day
 *
 * @typedef {object} WaitingAdapter
 * @property {(post: { url: string }) => Promise<OpenWaiting>} open
 *
 * @typedef {WaitingAdapter & { system: string, url: string }} WaitingSystem
 */
import { until } from '../queue/fleet.mjs';
import { openCounter } from './counter.mjs';

/** How many starts are under way at the same time. */
const lanes = 50;

/** So many wait before anything is counted: code is compiled and connections are open by then. */
const warmUp = 200;

/**
 * @param {WaitingSystem} system
 * @param {{ kind: 'receive' | 'sleep', workflows: number }} load
 * @returns {Promise<import('../catalogue.mjs').Measured>}
 */
export async function measureWaiting(system, { kind, workflows }) {
  const { start } = await system.open({ url: system.url });
  const counter = await openCounter(system.url);
  const startAll = async (/** @type {number} */ count) => {
    let started = 0;
    const lane = async () => {
      while (started < count) {
        started++;
        await start(kind);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  };
  await startAll(warmUp);
  await until(async () => (await counter.waiting()) === warmUp, 50);
  const before = await settledMemory();
  await startAll(workflows);
  await until(async () => (await counter.waiting()) === warmUp + workflows, 50);
  const after = await settledMemory();
  await counter.close();
  return {
    workflows,
    steps: 0,
    values: {
      rss: after.rss / 2 ** 20,
      rssEach: (after.rss - before.rss) / workflows / 1024,
      heapEach: (after.heapUsed - before.heapUsed) / workflows / 1024,
    },
  };
}

/** After several collections, with pauses in which the heap gives pages back and what was under way ends. */
async function settledMemory() {
  for (let i = 0; i < 8; i++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  globalThis.gc?.();
  return process.memoryUsage();
}
