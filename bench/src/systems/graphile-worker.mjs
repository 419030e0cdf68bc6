/** graphile-worker: a job queue on Postgres, without workflows or results. It takes part in queue workloads. */
import { graphileQueue } from '../queue/graphile-worker.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { storage: 'postgres', queue: graphileQueue };
