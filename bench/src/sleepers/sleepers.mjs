/**
 * Owns how sleepers are measured. Many workflows of one process sleep until instants that are spread over a minute. The
 * figures are the memory of the process while all of them sleep, and how late each one wakes. The code of a workflow
 * may run again after the sleep; the time at which it first continues counts.
 *
 * @typedef {object} OpenSleepers
 * @property {(wakeAt: number) => Promise<unknown>} start starts one workflow that sleeps until then
 * @property {() => Promise<number>} unfinished the number of unfinished workflows
 * @property {() => Promise<void>} close
 *
 * @typedef {object} SleepersAdapter
 * @property {(post: { url: string, woke: (wakeAt: number) => void }) => Promise<OpenSleepers>} open
 *
 * @typedef {SleepersAdapter & { system: string, url: string }} SleepersSystem
 */
import { until } from '../queue/fleet.mjs';

/** The number of parallel starts. */
const lanes = 200;

/**
 * @param {SleepersSystem} system
 * @param {{ workflows: number, fallAsleepMs: number, spreadMs: number }} load
 * @returns {Promise<import('../catalogue.mjs').Measured>}
 */
export async function measureSleepers(system, { workflows, fallAsleepMs, spreadMs }) {
  const late = new Float64Array(workflows);
  let woken = 0;
  const woke = (/** @type {number} */ wakeAt) => {
    if (woken < workflows) late[woken++] = Date.now() - wakeAt;
  };
  const { start, unfinished, close } = await system.open({ url: system.url, woke });
  const firstAt = Date.now() + fallAsleepMs;
  let started = 0;
  const lane = async () => {
    while (started < workflows) await start(firstAt + (started++ / workflows) * spreadMs);
  };
  const beganAt = performance.now();
  await Promise.all(Array.from({ length: lanes }, lane));
  const startSeconds = (performance.now() - beganAt) / 1000;
  if (Date.now() > firstAt)
    throw new Error(`Starting took ${Math.round(startSeconds)} s, and the first woke meanwhile.`);
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, firstAt - Date.now() - 3_000)));
  globalThis.gc?.();
  const asleep = process.memoryUsage();
  let peak = asleep.rss;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 100);
  await until(async () => woken >= workflows, 50);
  await until(async () => (await unfinished()) === 0, 50);
  clearInterval(watch);
  await close();
  late.sort();
  const quantile = (/** @type {number} */ q) => late[Math.min(workflows - 1, Math.floor(workflows * q))] ?? Number.NaN;
  return {
    workflows,
    steps: 0,
    values: {
      rss: asleep.rss / 2 ** 20,
      heap: asleep.heapUsed / 2 ** 20,
      peak: peak / 2 ** 20,
      p50: quantile(0.5),
      p99: quantile(0.99),
      max: quantile(1),
    },
  };
}
