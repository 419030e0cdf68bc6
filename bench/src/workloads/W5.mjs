/** W5: how long an item waits on a queue with an idle worker. */
import { itemsFor } from '../queue/fleet.mjs';
import { measureIdle } from '../queue/idle.mjs';

const amount = { question: 'idle', items: 200, quickItems: 20 };

const fleets = [
  { what: 'W5 idle queue, one process', workerProcesses: 0, queue: { name: 'idle1', idle: true } },
  { what: 'W5 idle queue, worker in another process', workerProcesses: 1, queue: { name: 'idle2', idle: true } },
];

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'one no-op at a time on an idle queue: from enqueue to start, and to the result seen by the enqueuer',
  uses: 'queue',
  cases: fleets.map(({ what, workerProcesses, queue }) => ({
    label: what,
    rows: [
      { key: 'startP50', label: `${what}, enqueue to start: p50 ms`, aims: [{ than: 'graphile-worker', atMost: 1.5 }] },
      { key: 'startP99', label: `${what}, enqueue to start: p99 ms` },
      { key: 'resultP50', label: `${what}, enqueue to result: p50 ms` },
      { key: 'resultP99', label: `${what}, enqueue to result: p99 ms` },
    ],
    measure: (system, { quick }) =>
      measureIdle(system, { queue, workerProcesses, items: itemsFor(system, amount, quick) }),
  })),
};
