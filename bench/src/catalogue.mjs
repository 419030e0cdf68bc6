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
 * @property {string} limit the system whose hand-written SQL is the limit for this one
 * @property {(env: { url: string }) => Promise<OpenSystem>} open `url` is postgres://... or sqlite:<path>
 *
 * @typedef {Omit<System, 'name'>} SystemDefinition what a file in `systems/` exports
 *
 * @typedef {{ key: string, label: string }} Row one line of the first table
 * @typedef {{ label: string, rows: Row[], measure: (system: OpenSystem, seconds: number) => Promise<Measured> }} Case
 * @typedef {{ name: string, title: string, cases: Case[] }} Workload
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
