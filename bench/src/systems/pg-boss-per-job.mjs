/** pg-boss with a separate outcome for each job of a batch, like each workflow. */
import { pgBossQueue } from '../queue/pg-boss.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'postgres',
  queue: {
    settings: 'as pg-boss, but perJobResults, and drain: batchSize 100, localConcurrency 4',
    items: { idle: 0, serial: 0 }, // With one job at a time there is no difference.
    ...pgBossQueue({ drain: { batchSize: 100, localConcurrency: 4 }, perJobResults: true }),
  },
};
