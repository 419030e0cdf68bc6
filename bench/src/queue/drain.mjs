/**
 * Owns how the drain of a backlog is timed. The worker processes are up, connected and not working; the backlog is
 * enqueued; then they begin. Time runs from the moment at which the first of them says that it works, or its first body
 * starts if that is earlier, until the database holds no unfinished item. For a system that polls, the wait for its
 * first poll does not count where one poll can take the whole backlog, as it is a matter of luck there.
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
  // The database is asked only when all bodies have started: until then the asking would cost those who are measured.
  await until(async () => (await fleet.started()) >= items, 4);
  await until(async () => !(await fleet.pending()), 1);
  const ended = clock();
  const firstBody = Math.min(...(await fleet.close(items)));
  const limited = queue.concurrency !== undefined || queue.workerConcurrency !== undefined;
  const began = system.pollMs === undefined || limited ? Math.min(begun, firstBody) : firstBody;
  return { workflows: items, steps: 0, values: { perSecond: (items / (ended - began)) * 1000 } };
}
