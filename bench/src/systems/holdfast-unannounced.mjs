/** Holdfast without announcements of messages. The difference is the cost of the announcements. */
import { unannouncedFleet } from '../fleet/unannounced.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { storage: 'postgres', fleet: unannouncedFleet, onlyByName: true };
