/** Another build of Holdfast on Postgres, which `--before` names: what this checkout is compared with. */
import holdfastPostgres from './holdfast-postgres.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default { ...holdfastPostgres, onlyByName: true, build: () => String(process.env.HOLDFAST_BEFORE) };
