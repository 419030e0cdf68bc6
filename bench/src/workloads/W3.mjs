/** W3: what a step costs, alone and under load. */
import { keepInFlight, oneAtATime } from '../drive.mjs';

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: '10-step workflows: one at a time, and per second with 100 in flight',
  uses: 'open',
  cases: [
    {
      label: 'W3 10-step workflow, one at a time',
      rows: [{ key: 'p50', label: 'W3 10-step workflow, one at a time: p50 ms' }],
      measure: (system, { seconds }) => oneAtATime(system, { steps: 10, seconds }),
    },
    {
      label: 'W3 10-step workflow, 100 in flight',
      rows: [{ key: 'perSecond', label: 'W3 10-step workflows/s, 100 in flight' }],
      measure: (system, { seconds }) => keepInFlight(system, { steps: 10, inFlight: 100, seconds }),
    },
  ],
};
