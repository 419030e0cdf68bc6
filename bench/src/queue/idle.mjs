/** Owns how the latency of an idle queue is measured: one item at a time, each for an idle worker. */
import { percentile } from '../drive.mjs';
import { notMeasured, openFleet, until } from './fleet.mjs';
import { clock } from './ledger.mjs';

/** The pause before an item, in which its worker becomes idle. It is random, so no timer can be in step with it. */
const pauseMs = { least: 10, most: 30 };

/**
 * @param {import('./fleet.mjs').QueueSystem} system
 * @param {{ queue: import('./fleet.mjs').QueueSpec, workerProcesses: 0 | 1, items: number }} load
 * @returns {Promise<import('../catalogue.mjs').Measured>}
 */
export async function measureIdle(system, { queue, workerProcesses, items }) {
  if (items === 0) return notMeasured;
  const warmUp = Math.ceil(items / 10);
  const fleet = await openFleet(system, queue, workerProcesses);
  await fleet.begin();
  /** @type {number[]} */
  const enqueuedAt = [];
  /** @type {number[]} */
  const seenAt = [];
  for (let input = 0; input < warmUp + items; input++) {
    await pause(Math.max(pauseMs.most, system.pollMs ?? 0));
    enqueuedAt[input] = clock();
    const { result } = await fleet.enqueue(input);
    if (result) {
      await result();
      seenAt[input] = clock();
    }
    await fleet.reached(input + 1);
  }
  await until(async () => !(await fleet.pending()), 5);
  const startedAt = await fleet.close(warmUp + items);
  return {
    workflows: items,
    steps: 0,
    values: {
      ...percentiles('start', enqueuedAt, startedAt, warmUp),
      ...(seenAt.length > 0 ? percentiles('result', enqueuedAt, seenAt, warmUp) : {}),
    },
  };
}

/**
 * @param {string} key
 * @param {number[]} from
 * @param {number[]} to
 * @param {number} warmUp the number of first items that do not count
 */
function percentiles(key, from, to, warmUp) {
  const took = to.map((end, input) => end - from[input]).slice(warmUp);
  took.sort((a, b) => a - b);
  return { [`${key}P50`]: percentile(took, 0.5), [`${key}P99`]: percentile(took, 0.99) };
}

/** @param {number} mostMs */
function pause(mostMs) {
  const ms = pauseMs.least + Math.random() * (mostMs - pauseMs.least);
  return new Promise((resolve) => setTimeout(resolve, ms));
}
