/**
 * The limit without the cost of announcements: Holdfast's own messages, with all their checks and rows, but without
 * announcements. This module answers each announcing statement itself, so the statement never reaches the server.
 */
import { openHoldfast } from './holdfast.mjs';

/** A channel on which every message is announced, among others. */
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
