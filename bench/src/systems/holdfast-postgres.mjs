/** Holdfast on Postgres. */
import { holdfastFailover } from '../failover/holdfast.mjs';
import { holdfastFleet } from '../fleet/holdfast.mjs';
import { openHoldfast } from '../holdfast.mjs';
import { holdfastMessages } from '../messages/holdfast.mjs';
import { holdfastQueue } from '../queue/holdfast.mjs';
import { holdfastRecovery } from '../recovery/holdfast.mjs';
import { holdfastRetention } from '../retention/holdfast.mjs';
import { holdfastSleepers } from '../sleepers/holdfast.mjs';
import { holdfastWaiting } from '../waiting/holdfast.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'postgres',
  limit: 'raw',
  open: openHoldfast,
  queue: holdfastQueue,
  messages: holdfastMessages,
  waiting: holdfastWaiting,
  sleepers: holdfastSleepers,
  failover: holdfastFailover,
  fleet: holdfastFleet,
  recovery: holdfastRecovery,
  retention: holdfastRetention,
};
