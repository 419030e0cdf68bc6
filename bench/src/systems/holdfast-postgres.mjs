/** Holdfast on Postgres. */
import { openHoldfast } from '../holdfast.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { storage: 'postgres', limit: 'raw', open: openHoldfast };
