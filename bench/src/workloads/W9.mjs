/** W9: the memory cost of a workflow that only waits. */
import { measureWaiting } from '../waiting/memory.mjs';

/** @type {import('../catalogue.mjs').Aim[]} */
const aims = [{ than: 'dbos', atMost: 0.5 }];

const waits = /** @type {const} */ ([
  { what: 'W9 10,000 workflows in receive', kind: 'receive' },
  { what: 'W9 10,000 workflows in sleep', kind: 'sleep' },
]);

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'memory of a process with 10,000 workflows that wait for a message, or sleep',
  uses: 'waiting',
  cases: waits.map(({ what, kind }) => ({
    label: what,
    rows: [
      { key: 'rss', label: `${what}, resident memory in all: MB` },
      { key: 'rssEach', label: `${what}, resident memory for each: KB`, aims },
      { key: 'heapEach', label: `${what}, live heap for each: KB`, aims },
    ],
    measure: (system, { quick }) => measureWaiting(system, { kind, workflows: quick ? 1000 : 10_000 }),
  })),
};
