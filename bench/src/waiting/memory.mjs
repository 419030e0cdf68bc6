/**
 * Owns how the memory of waiting workflows is measured. This process starts many workflows, and waits until the
 * database shows all of them as waiting. The figure is the memory of the process beyond its memory before.
 *
 * @typedef {object} OpenWaiting
 * @property {(kind: 'receive' | 'sleep') => Promise<unknown>} start starts one workflow that waits for a day
 *
 * @typedef {object} WaitingAdapter
 * @property {(post: { url: string }) => Promise<OpenWaiting>} open
 *
 * @typedef {WaitingAdapter & { system: string, url: string }} WaitingSystem
 */
import { until } from '../queue/fleet.mjs';
import { openCounter } from './counter.mjs';

/** The number of parallel starts. */
const lanes = 50;

/** This many workflows wait before the measurement starts: then code is compiled and connections are open. */
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

/** Measures after several garbage collections, with pauses in which the heap returns pages and running work ends. */
async function settledMemory() {
  for (let i = 0; i < 8; i++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  globalThis.gc?.();
  return process.memoryUsage();
}
