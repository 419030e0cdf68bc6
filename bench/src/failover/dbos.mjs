/** DBOS's side of a failover. */
import { configuredDbos } from '../dbos.mjs';

/** With the default of a second, the first executor could finish everything before the last one polls for work. */
const minPollingIntervalMs = 20;

/** @type {import('./failover.mjs').FailoverAdapter} */
export const dbosFailover = {
  async openExecutor({ url, queue, step, steps, workerConcurrency }) {
    const { DBOS } = await configuredDbos(url, { listenQueues: [queue] });
    DBOS.registerWorkflow(
      async (/** @type {string} */ id) => {
        for (let n = 0; n < steps; n++) await DBOS.runStep(() => step(id, n), { name: 'step' });
      },
      { name: 'work' },
    );
    await DBOS.launch();
    await DBOS.registerQueue(queue, { workerConcurrency, minPollingIntervalMs });
    // DBOS finds a queue that was registered after the launch within a second.
    await new Promise((resolve) => setTimeout(resolve, 1500));
  },

  async openStarter({ url, queue }) {
    const { DBOS } = await configuredDbos(url, { listenQueues: [] });
    const work = DBOS.registerWorkflow(async (/** @type {string} */ _id) => {}, { name: 'work' });
    await DBOS.launch();
    return {
      start: (ids) => Promise.all(ids.map((id) => DBOS.startWorkflow(work, { workflowID: id, queueName: queue })(id))),
      allow: (workerConcurrency) => DBOS.registerQueue(queue, { workerConcurrency, minPollingIntervalMs }),
      close: () => DBOS.shutdown(),
    };
  },
};
