/** The DBOS SDK, told to poll as often as pays: what its users can get out of a queue by settings alone. */
import { dbosQueueSql, openDbosQueue } from '../queue/dbos.mjs';

const minPollingIntervalMs = 5;

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'postgres',
  queue: {
    settings: `minPollingIntervalMs ${minPollingIntervalMs}, results polled as often`,
    pollMs: minPollingIntervalMs,
    items: { drain: 0 }, // One poll takes the whole backlog, so that more of them change nothing.
    ...dbosQueueSql,
    open: openDbosQueue({ minPollingIntervalMs }),
  },
};
