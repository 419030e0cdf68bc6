/** W4: how fast a backlog on a queue is drained, without limits and with each limit. */
import { measureDrain } from '../queue/drain.mjs';
import { itemsFor } from '../queue/fleet.mjs';

/** @type {import('../catalogue.mjs').Aim[]} */
const drainAims = [
  { than: 'dbos', atLeast: 8 },
  // There, each job has its own outcome, like every workflow.
  { than: 'pg-boss-per-job', atLeast: 1 },
];

const drains = [
  {
    what: 'W4 drain of a backlog, 1 worker process',
    question: 'drain',
    items: 10_000,
    quickItems: 1000,
    workerProcesses: 1,
    queue: { name: 'drain1' },
    aims: drainAims,
  },
  {
    what: 'W4 drain of a backlog, 2 worker processes',
    question: 'drain',
    items: 10_000,
    quickItems: 1000,
    workerProcesses: 2,
    queue: { name: 'drain2' },
    aims: drainAims,
  },
  {
    what: 'W4 queue with concurrency 1',
    question: 'serial',
    items: 500,
    quickItems: 50,
    workerProcesses: 1,
    queue: { name: 'serial', concurrency: 1 },
    aims: [{ than: 'dbos', atLeast: 200 }],
  },
  {
    what: 'W4 queue with workerConcurrency 10',
    question: 'capped',
    items: 2000,
    quickItems: 200,
    workerProcesses: 1,
    queue: { name: 'capped', workerConcurrency: 10 },
  },
];

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'no-ops that are on a queue already, per second: with 1 and 2 worker processes, and with limits',
  uses: 'queue',
  cases: drains.map(({ what, workerProcesses, queue, aims, ...amount }) => ({
    label: what,
    rows: [{ key: 'perSecond', label: `${what}: workflows/s`, aims }],
    measure: (system, { quick }) =>
      measureDrain(system, { queue, workerProcesses, items: itemsFor(system, amount, quick) }),
  })),
};
