/** Holdfast on a Postgres with JIT turned off, to compare with `holdfast-postgres`. */
import holdfastPostgres from './holdfast-postgres.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { ...holdfastPostgres, settings: { jit: 'off' }, onlyByName: true };
