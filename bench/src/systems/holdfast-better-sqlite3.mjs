/** Holdfast on SQLite through better-sqlite3, to compare with `holdfast-sqlite` on `node:sqlite`. */
import { openHoldfast } from '../holdfast.mjs';
import { holdfastQueue } from '../queue/holdfast.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'sqlite',
  scheme: 'sqlite+better-sqlite3',
  onlyByName: true,
  limit: 'raw-sqlite',
  open: openHoldfast,
  queue: holdfastQueue,
};
