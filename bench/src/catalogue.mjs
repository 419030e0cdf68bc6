/**
 * Owns what can be measured. Every file in `workloads/` is one question, and every file in `systems/` is one
 * contestant. The file name is the name on the command line. To add a workload or a system, add one file.
 *
 * System files import their library inside `open`. Listing the systems is therefore quick, and a library that is not
 * built yet fails only its own measurements.
 *
 * @typedef {{ workflows: number, steps: number, values: Record<string, number> }} Measured
 *   what one measurement did (finished workflows, the number of step rows that they must leave), and figures by row key
 *
 * @typedef {object} OpenSystem
 * @property {(steps: number, input: number) => Promise<number>} run
 *   starts one workflow of `steps` no-op steps (1 or 10), awaits it, and resolves with its result, which is `input`
 * @property {(steps: number, firstInput: number, size: number) => Promise<unknown>} [runCohort]
 *   only for hand-written SQL: runs `size` workflows in parallel, with one statement per phase for all of them
 * @property {number} [cohorts] how many cohorts such a system runs at the same time
 * @property {() => Promise<void>} close
 *
 * @typedef {object} System
 * @property {string} name
 * @property {'postgres' | 'sqlite'} storage the kind of fresh database that the system gets
 * @property {string} [scheme] the scheme of the SQLite URL, if it names the library
 * @property {Record<string, string>} [settings] the settings of its Postgres database
 * @property {boolean} [onlyByName] whether the system takes part only if `--only` names it
 * @property {() => string} [build] the folder of the measured Holdfast, if that is not this checkout
 * @property {string} [limit] the system whose hand-written SQL is the limit for this one
 * @property {(env: { url: string }) => Promise<OpenSystem>} [open]
 *   for workloads that run workflows; `url` is postgres://... or sqlite:<path>
 * @property {import('./queue/fleet.mjs').QueueAdapter} [queue] for workloads that measure queues
 * @property {import('./messages/exchange.mjs').MessagesAdapter} [messages] for workloads that measure messages
 * @property {import('./waiting/memory.mjs').WaitingAdapter} [waiting] for workloads that measure waiting workflows
 * @property {import('./sleepers/sleepers.mjs').SleepersAdapter} [sleepers] for workloads with very many sleepers
 * @property {import('./failover/failover.mjs').FailoverAdapter} [failover] for workloads that kill a process
 * @property {import('./recovery/recovery.mjs').RecoveryAdapter} [recovery] for workloads that restart a killed process
 * @property {import('./fleet/trial.mjs').FleetAdapter} [fleet] for workloads with many processes
 * @property {import('./retention/retention.mjs').RetentionAdapter} [retention] for workloads that delete workflows
 *
 * @typedef {Omit<System, 'name'>} SystemDefinition what a file in `systems/` exports
 *
 * @typedef {{ than?: string, atMost?: number, atLeast?: number }} Aim
 *   the goal for Holdfast's figure: as a ratio to the figure of another system (`than`), or absolute
 * @typedef {{ key: string, label: string, aims?: Aim[] }} Row one line of a table of results for each system
 * @typedef {{ seconds: number, quick: boolean }} Effort how long a measurement runs, and whether it is shortened
 *
 * @typedef {object} Case
 * @property {string} label
 * @property {Row[]} rows
 * @property {import('./fleet/trial.mjs').FleetCase} [fleet] for a fleet, which has no `measure`
 * @property {(system: any, effort: Effort) => Promise<Measured>} measure
 *   gets an OpenSystem, or the side of a system that the workload uses. A row without a value does not apply. Infinity
 *   stands for what never happened
 *
 * @typedef {'open' | 'queue' | 'messages' | 'waiting' | 'sleepers' | 'failover' | 'recovery' | 'fleet' | 'retention'} Side
 *
 * @typedef {object} Workload
 * @property {string} name
 * @property {string} title
 * @property {Side} uses the side of a system that the workload needs; systems without this side take no part
 * @property {boolean} [onlyByName] whether the workload is measured only if the command line names it
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
