/** Generates and times the load on a system. The workloads define only its size. Runs in the child process. */

/**
 * Runs one workflow after the other.
 *
 * @param {import('./catalogue.mjs').OpenSystem} system
 * @param {{ steps: number, seconds: number }} load
 * @returns {Promise<import('./catalogue.mjs').Measured>}
 */
export async function oneAtATime(system, { steps, seconds }) {
  /** @type {number[]} */
  const latencies = [];
  const end = performance.now() + seconds * 1000;
  for (let input = 0, began = performance.now(); began < end; input++) {
    check(await system.run(steps, input), input);
    const done = performance.now();
    latencies.push(done - began);
    began = done;
  }
  latencies.sort((a, b) => a - b);
  return {
    workflows: latencies.length,
    steps: latencies.length * steps,
    values: { p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) },
  };
}

/**
 * Keeps a constant number of workflows in flight. When a workflow finishes, the next one starts, until the time is up.
 * Then all running workflows are awaited, and their time counts. A count of workflows finished within a fixed window
 * would be wrong: a thousand workflows that share ten connections finish in waves of more than a second.
 *
 * @param {import('./catalogue.mjs').OpenSystem} system
 * @param {{ steps: number, inFlight: number, seconds: number }} load
 * @returns {Promise<import('./catalogue.mjs').Measured>}
 */
export async function keepInFlight(system, { steps, inFlight, seconds }) {
  const lanes = system.runCohort ? Math.min(system.cohorts ?? 1, inFlight) : inFlight;
  const size = system.runCohort ? Math.floor(inFlight / lanes) : 1;
  const began = performance.now();
  const end = began + seconds * 1000;
  let started = 0;
  const lane = async () => {
    while (performance.now() < end) {
      const input = started;
      started += size;
      if (system.runCohort) await system.runCohort(steps, input, size);
      else check(await system.run(steps, input), input);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  const perSecond = (started / (performance.now() - began)) * 1000;
  return { workflows: started, steps: started * steps, values: { perSecond } };
}

/**
 * @param {number[]} sorted
 * @param {number} share
 */
export function percentile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/**
 * @param {number} result
 * @param {number} expected
 */
function check(result, expected) {
  if (result !== expected) throw new Error(`A workflow gave ${result} where ${expected} was expected.`);
}
