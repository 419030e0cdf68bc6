/** W1: how long one caller waits. */
import { oneAtATime } from '../drive.mjs';

const label = 'W1 1-step workflow, one at a time';

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'start a 1-step workflow, await its result, repeat',
  uses: 'open',
  cases: [
    {
      label,
      rows: [
        { key: 'p50', label: `${label}: p50 ms` },
        { key: 'p99', label: `${label}: p99 ms` },
      ],
      measure: (system, { seconds }) => oneAtATime(system, { steps: 1, seconds }),
    },
  ],
};
