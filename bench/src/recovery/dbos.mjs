/** DBOS's side of a recovery. At launch, DBOS continues the unfinished work of its executor ID. */
import { configuredDbos } from '../dbos.mjs';

/** @type {import('./recovery.mjs').RecoveryAdapter} */
export const dbosRecovery = {
  async openExecutor({ url, first, second }) {
    const { DBOS } = await configuredDbos(url, { executorID: 'bench' });
    const work = DBOS.registerWorkflow(
      async (/** @type {number} */ input) => {
        await DBOS.runStep(() => first(input), { name: 'first' });
        return DBOS.runStep(() => second(input), { name: 'second' });
      },
      { name: 'work' },
    );
    await DBOS.launch();
    return (id, input) => DBOS.startWorkflow(work, { workflowID: id })(input);
  },
};
