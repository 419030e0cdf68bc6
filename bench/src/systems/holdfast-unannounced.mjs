/** Holdfast that tells nobody of its messages: what announcing them costs is the difference. */
import { unannouncedFleet } from '../fleet/unannounced.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { storage: 'postgres', fleet: unannouncedFleet, onlyByName: true };
