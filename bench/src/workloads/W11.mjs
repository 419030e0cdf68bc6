/** W11: how soon other processes continue the work of a killed process. */
import { measureFailover } from '../failover/failover.mjs';

const what = 'W11 one of three killed';
const newest = 'W11 one killed that was just launched';

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'three processes with 100 workflows, one of them killed: until its work goes on elsewhere, and is done',
  uses: 'failover',
  cases: [
    {
      label: what,
      rows: [
        { key: 'firstP50', label: `${what}, to the first resumed step: p50 ms`, aims: [{ atMost: 1000 }] },
        { key: 'firstMax', label: `${what}, to the first resumed step: max ms` },
        { key: 'allP50', label: `${what}, until all of its work is done: p50 ms` },
        { key: 'allMax', label: `${what}, until all of its work is done: max ms` },
      ],
      measure: (system, { quick }) => measureFailover(system, quick ? 2 : 20),
    },
    {
      label: newest,
      rows: [
        { key: 'firstP50', label: `${newest}, to the first resumed step: p50 ms`, aims: [{ atMost: 1000 }] },
        { key: 'firstMax', label: `${newest}, to the first resumed step: max ms`, aims: [{ atMost: 2000 }] },
        { key: 'allP50', label: `${newest}, until all of its work is done: p50 ms` },
        { key: 'allMax', label: `${newest}, until all of its work is done: max ms` },
      ],
      measure: (system, { quick }) => measureFailover(system, quick ? 2 : 40, 'newest'),
    },
  ],
};
