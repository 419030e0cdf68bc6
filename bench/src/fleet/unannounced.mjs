/**
 * The limit for what announcements cost: Holdfast's own messages, with each check and row that they have, of which nobody is told.
 * The statement that announces one is answered here and never reaches the server.
 */
import { openHoldfast } from './holdfast.mjs';

/** The channel that each announcement of a message goes by, among others. */
const channelOfMessages = 'dbos_notifications_channel';

/** @type {import('./trial.mjs').FleetAdapter} */
export const unannouncedFleet = {
  onlySends: true,
  open: (post) => openHoldfast(post, { config: { connectionString: post.url, onConnect: silence } }),
};

/** @param {import('pg').Client} client */
function silence(client) {
  const query = /** @type {(...args: any[]) => any} */ (client.query.bind(client));
  const isAnnouncement = (/** @type {any} */ statement) => statement?.values?.[0]?.includes?.(channelOfMessages);
  Object.assign(client, {
    query: (/** @type {any[]} */ ...args) => (isAnnouncement(args[0]) ? Promise.resolve({ rows: [] }) : query(...args)),
  });
}
