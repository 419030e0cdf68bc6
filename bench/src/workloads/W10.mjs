/** W10: a small process with very many sleepers. */
import { measureSleepers } from '../sleepers/sleepers.mjs';

const what = 'W10 100,000 sleepers';

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title:
    'memory of a process with 100,000 sleeping workflows, and how late they wake (aims: under 300 MB, p99 under 1 s)',
  uses: 'sleepers',
  cases: [
    {
      label: what,
      rows: [
        { key: 'rss', label: `${what}, resident memory while all sleep: MB` },
        { key: 'heap', label: `${what}, live heap while all sleep: MB` },
        { key: 'peak', label: `${what}, resident memory at most, while they wake: MB` },
        { key: 'p50', label: `${what}, woken late by: p50 ms` },
        { key: 'p99', label: `${what}, woken late by: p99 ms` },
        { key: 'max', label: `${what}, woken late by: max ms` },
      ],
      measure: (system, { quick }) =>
        measureSleepers(
          system,
          quick
            ? { workflows: 2_000, fallAsleepMs: 8_000, spreadMs: 3_000 }
            : { workflows: 100_000, fallAsleepMs: 75_000, spreadMs: 60_000 },
        ),
    },
  ],
};
