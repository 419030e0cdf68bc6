/** DBOS's side of a queue measurement. */
import { randomUUID } from 'node:crypto';

/** The number of parallel enqueues. The enqueueing of a backlog is not timed, but should not take long. */
const lanes = 50;

/**
 * @param {{ minPollingIntervalMs?: number }} tuning
 * @returns {import('./fleet.mjs').QueueAdapter['open']}
 */
export function openDbosQueue({ minPollingIntervalMs }) {
  return async ({ url, queue, role, body }) => {
    const { DBOS } = await import('@dbos-inc/dbos-sdk');
    const { name, concurrency, workerConcurrency } = queue;
    DBOS.setConfig({
      name: 'bench',
      systemDatabaseUrl: url,
      logLevel: 'error',
      applicationVersion: 'bench',
      // By default the executor ID of every process is "local", so each would recover the work of the others as its
      // own.
      executorID: randomUUID(),
      listenQueues: role === 'enqueuer' ? [] : [name],
    });
    const noop = DBOS.registerWorkflow(async (/** @type {number} */ input) => body(input), { name: 'noop' });
    if (role !== 'worker') {
      await DBOS.launch();
      await DBOS.registerQueue(name, { globalConcurrency: concurrency, workerConcurrency, minPollingIntervalMs });
    }
    const start = (/** @type {number} */ input) => DBOS.startWorkflow(noop, { queueName: name })(input);
    return {
      async begin() {
        if (role === 'worker') await DBOS.launch();
        // DBOS finds a queue that was registered after the launch within a second.
        else await new Promise((resolve) => setTimeout(resolve, 1500));
      },
      async enqueue(input) {
        const handle = await start(input);
        return { result: () => handle.getResult({ pollingIntervalMs: minPollingIntervalMs }) };
      },
      async enqueueAll(inputs) {
        const waiting = inputs.values();
        const lane = async () => {
          for (const input of waiting) await start(input);
        };
        await Promise.all(Array.from({ length: lanes }, lane));
      },
      close: () => DBOS.shutdown(),
    };
  };
}

export const dbosQueueSql = {
  pendingSql: `select exists (select from dbos.workflow_status where queue_name = $1
    and status in ('ENQUEUED', 'PENDING')) as pending`,
  finishedSql: `select count(*) as finished from dbos.workflow_status where queue_name = $1 and status = 'SUCCESS'`,
};
