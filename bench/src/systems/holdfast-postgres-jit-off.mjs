/** Holdfast on a Postgres that compiles no statements, whatever it does for others: what `holdfast-postgres` is compared with. */
import holdfastPostgres from './holdfast-postgres.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { ...holdfastPostgres, settings: { jit: 'off' }, onlyByName: true };
