/** The DBOS SDK with the best poll intervals: what users can achieve by settings alone. */
import { dbosMessages } from '../messages/dbos.mjs';
import { dbosQueueSql, openDbosQueue } from '../queue/dbos.mjs';

const minPollingIntervalMs = 5;

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'postgres',
  queue: {
    settings: `minPollingIntervalMs ${minPollingIntervalMs}, results polled as often`,
    pollMs: minPollingIntervalMs,
    items: { drain: 0 }, // One poll takes the whole backlog, so more polls change nothing.
    ...dbosQueueSql,
    open: openDbosQueue({ minPollingIntervalMs }),
  },
  messages: {
    settings: `notifications, and pollingIntervalMs ${minPollingIntervalMs} in each wait`,
    ...dbosMessages({ pollingIntervalMs: minPollingIntervalMs }),
  },
};
