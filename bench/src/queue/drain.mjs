/**
 * Owns how the drain of a backlog is timed. The worker processes are connected but not working while the backlog is
 * enqueued. Then they begin. The time starts when the first worker reports that it works, or when the first body
 * starts, if that is earlier. The time ends when the database contains no unfinished item. If one poll of a system can
 * take the whole backlog, the wait for its first poll is a matter of luck, and does not count.
 */
import { notMeasured, openFleet, until } from './fleet.mjs';
import { clock } from './ledger.mjs';

/**
 * @param {import('./fleet.mjs').QueueSystem} system
 * @param {{ queue: import('./fleet.mjs').QueueSpec, workerProcesses: number, items: number }} load
 * @returns {Promise<import('../catalogue.mjs').Measured>}
 */
export async function measureDrain(system, { queue, workerProcesses, items }) {
  if (items === 0) return notMeasured;
  const fleet = await openFleet(system, queue, workerProcesses);
  await fleet.enqueueAll(Array.from({ length: items }, (_, input) => input));
  const begun = await fleet.begin();
  // The database is queried only after all bodies have started. Earlier queries would slow the measured work.
  await until(async () => (await fleet.started()) >= items, 4);
  await until(async () => !(await fleet.pending()), 1);
  const ended = clock();
  const firstBody = Math.min(...(await fleet.close(items)));
  const limited = queue.concurrency !== undefined || queue.workerConcurrency !== undefined;
  const began = system.pollMs === undefined || limited ? Math.min(begun, firstBody) : firstBody;
  return { workflows: items, steps: 0, values: { perSecond: (items / (ended - began)) * 1000 } };
}
