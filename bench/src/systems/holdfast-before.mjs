/** The build of Holdfast that `--before` names, on Postgres. This checkout is compared with it. */
import holdfastPostgres from './holdfast-postgres.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { ...holdfastPostgres, onlyByName: true, build: () => String(process.env.HOLDFAST_BEFORE) };
