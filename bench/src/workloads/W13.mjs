/** W13: how fast retention deletes old workflows, alone and beside other work. */
import { measureRetention } from '../retention/retention.mjs';

const [alone, beside] = ['W13 retention with nothing else to do', 'W13 retention beside 100 workflows in flight'];
const size = (/** @type {boolean} */ quick) => (quick ? 5_000 : 100_000);

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'retention: workflows of one step that ended long ago, deleted per second, alone and beside work',
  uses: 'retention',
  onlyByName: true,
  cases: [
    {
      label: alone,
      rows: [{ key: 'deleted', label: `${alone}: deleted/s` }],
      measure: (system, { quick }) => measureRetention(system, { workflows: size(quick), inFlight: 0 }),
    },
    {
      label: beside,
      rows: [
        { key: 'deleted', label: `${beside}: deleted/s` },
        { key: 'ran', label: `${beside}: run/s` },
      ],
      measure: (system, { quick }) => measureRetention(system, { workflows: size(quick), inFlight: 100 }),
    },
  ],
};
