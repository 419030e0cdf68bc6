/** Holdfast on Postgres. */
import { openHoldfast } from '../holdfast.mjs';
import { holdfastQueue } from '../queue/holdfast.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { storage: 'postgres', limit: 'raw', open: openHoldfast, queue: holdfastQueue };
