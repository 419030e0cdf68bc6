/** W2: how many small workflows one process finishes. */
import { keepInFlight } from '../drive.mjs';

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: '1-step workflows per second with 100 and with 1000 in flight',
  uses: 'open',
  cases: [100, 1000].map((inFlight) => ({
    label: `W2 1-step workflow, ${inFlight} in flight`,
    rows: [{ key: 'perSecond', label: `W2 1-step workflows/s, ${inFlight} in flight` }],
    measure: (system, { seconds }) => keepInFlight(system, { steps: 1, inFlight, seconds }),
  })),
};
