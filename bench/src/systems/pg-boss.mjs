/** pg-boss, a job queue on Postgres without workflows, in its fastest mode. It takes part in queue workloads. */
import { pgBossQueue } from '../queue/pg-boss.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'postgres',
  queue: {
    settings:
      'useListenNotify and notify; drain: batchSize 500, localConcurrency 2, burstWhenBatchFull, a batch settled as ' +
      'one; concurrency 1: policy singleton, notifyWorker after each job; workerConcurrency 10: batchSize 10, ' +
      'burstWhenBatchFull',
    ...pgBossQueue({ drain: { batchSize: 500, localConcurrency: 2 }, perJobResults: false }),
  },
};
