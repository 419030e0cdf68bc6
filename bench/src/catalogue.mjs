/**
 * Owns what can be measured: every file in `workloads/` is one question, every file in `systems/` is one
 * contestant, and the file's name is its name on the command line. Adding either is adding one file.
 *
 * System files import their library inside `open`, so that listing them costs nothing and a library that is not
 * built yet fails only its own measurements.
 *
 * @typedef {{ workflows: number, steps: number, values: Record<string, number> }} Measured
 *   what one measurement did (workflows finished, step rows they must have left) and its figures by row key
 *
 * @typedef {object} OpenSystem
 * @property {(steps: number, input: number) => Promise<number>} run
 *   starts one workflow of `steps` no-op steps (1 or 10), awaits it, and gives its result, which is `input`
 * @property {(steps: number, firstInput: number, size: number) => Promise<unknown>} [runCohort]
 *   only for hand-written SQL: `size` workflows in step with each other, one statement per phase for all of them
 * @property {number} [cohorts] how many cohorts such a system keeps going at the same time
 * @property {() => Promise<void>} close
 *
 * @typedef {object} System
 * @property {string} name
 * @property {'postgres' | 'sqlite'} storage which kind of fresh database it gets
 * @property {string} [scheme] of a SQLite URL, if it names the library
 * @property {Record<string, string>} [settings] those of its Postgres database
 * @property {boolean} [onlyByName] whether it takes part only where `--only` names it
 * @property {() => string} [build] the folder of the Holdfast that it measures, if that is another than this checkout's
 * @property {string} [limit] the system whose hand-written SQL is the limit for this one
 * @property {(env: { url: string }) => Promise<OpenSystem>} [open]
 *   for workloads that run workflows; `url` is postgres://... or sqlite:<path>
 * @property {import('./queue/fleet.mjs').QueueAdapter} [queue] for workloads that measure queues
 * @property {import('./messages/exchange.mjs').MessagesAdapter} [messages] for those that measure messages
 * @property {import('./waiting/memory.mjs').WaitingAdapter} [waiting] for those that measure waiting workflows
 * @property {import('./sleepers/sleepers.mjs').SleepersAdapter} [sleepers] for those that measure very many of them
 * @property {import('./failover/failover.mjs').FailoverAdapter} [failover] for those that kill a process
 * @property {import('./recovery/recovery.mjs').RecoveryAdapter} [recovery] for those that start it again
 * @property {import('./fleet/trial.mjs').FleetAdapter} [fleet] for those that measure many processes
 * @property {import('./retention/retention.mjs').RetentionAdapter} [retention] for those that delete what ended
 *
 * @typedef {Omit<System, 'name'>} SystemDefinition what a file in `systems/` exports
 *
 * @typedef {{ than?: string, atMost?: number, atLeast?: number }} Aim
 *   what Holdfast's figure is to be: as a ratio to that of another system, or by itself
 * @typedef {{ key: string, label: string, aims?: Aim[] }} Row one line of a table of results for each system
 * @typedef {{ seconds: number, quick: boolean }} Effort how much of it
 *
 * @typedef {object} Case
 * @property {string} label
 * @property {Row[]} rows
 * @property {import('./fleet/trial.mjs').FleetCase} [fleet] for a fleet, which has no `measure`
 * @property {(system: any, effort: Effort) => Promise<Measured>} measure
 *   gets an OpenSystem, or the side of a system that the workload uses; a row whose key it leaves out does not apply,
 *   and infinity is what never happened
 *
 * @typedef {'open' | 'queue' | 'messages' | 'waiting' | 'sleepers' | 'failover' | 'recovery' | 'fleet' | 'retention'} Side
 *
 * @typedef {object} Workload
 * @property {string} name
 * @property {string} title
 * @property {Side} uses the side of a system that it needs; systems without it take no part
 * @property {boolean} [onlyByName] whether it is measured only where the command line names it
 * @property {Case[]} cases
 *
 * @typedef {Omit<Workload, 'name'>} WorkloadDefinition what a file in `workloads/` exports
 */
import { readdir } from 'node:fs/promises';

/** @returns {Promise<System[]>} */
export function loadSystems() {
  return loadFolder('systems');
}

/** @returns {Promise<Workload[]>} */
export function loadWorkloads() {
  return loadFolder('workloads');
}

/**
 * @param {Pick<System, Side>} system
 * @param {Pick<Workload, 'uses'>} workload
 */
export function takesPart(system, { uses }) {
  return system[uses] !== undefined;
}

/** @param {string} folder */
async function loadFolder(folder) {
  const names = (await readdir(new URL(`./${folder}/`, import.meta.url)))
    .filter((file) => file.endsWith('.mjs'))
    .map((file) => file.slice(0, -'.mjs'.length))
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return Promise.all(names.map((name) => loadFile(folder, name)));
}

/**
 * @param {string} folder
 * @param {string} name
 */
async function loadFile(folder, name) {
  const { default: definition } = await import(new URL(`./${folder}/${name}.mjs`, import.meta.url).href);
  return { name, ...definition };
}
