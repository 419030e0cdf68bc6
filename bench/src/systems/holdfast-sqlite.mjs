/** Holdfast on SQLite. */
import { openHoldfast } from '../holdfast.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { storage: 'sqlite', limit: 'raw-sqlite', open: openHoldfast };
