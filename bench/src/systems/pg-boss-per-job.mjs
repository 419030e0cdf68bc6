/** pg-boss where each job of a batch has its own outcome, as each workflow has. */
import { pgBossQueue } from '../queue/pg-boss.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'postgres',
  queue: {
    settings: 'as pg-boss, but perJobResults, and drain: batchSize 100, localConcurrency 4',
    items: { idle: 0, serial: 0 }, // One job at a time is the same with and without.
    ...pgBossQueue({ drain: { batchSize: 100, localConcurrency: 4 }, perJobResults: true }),
  },
};
