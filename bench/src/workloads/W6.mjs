/** W6: how long a restarted process takes to finish the work of its killed predecessor. */
import { measureRecovery } from '../recovery/recovery.mjs';

const what = 'W6 5,000 workflows of a killed process';

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'a process with 5,000 workflows under way is killed and started again: until all of them are done',
  uses: 'recovery',
  cases: [
    {
      label: what,
      rows: [{ key: 'seconds', label: `${what}, restart to all done: s`, aims: [{ than: 'dbos', atMost: 0.1 }] }],
      measure: (system, { quick }) => measureRecovery(system, quick ? 200 : 5000),
    },
  ],
};
