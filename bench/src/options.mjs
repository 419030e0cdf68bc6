/** Owns the command line: turns arguments into a plan, or into a message that says what exists. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { fleetCases } from './fleet/cases.mjs';

/**
 * @typedef {object} Plan
 * @property {import('./catalogue.mjs').Workload[]} workloads
 * @property {import('./catalogue.mjs').System[]} systems
 * @property {number} rounds
 * @property {number} warmSeconds
 * @property {number} seconds of each measured part
 * @property {boolean} quick
 * @property {'bundled' | 'system'} postgres
 * @property {string} [before] the folder of the Holdfast that `holdfast-before` measures
 */

/** A mistake on the command line, or Ctrl-C. Only its message is printed. */
export class UsageError extends Error {}

/**
 * @param {string[]} argv
 * @param {import('./catalogue.mjs').Workload[]} workloads
 * @param {import('./catalogue.mjs').System[]} systems
 * @returns {Plan | 'help'}
 */
export function parsePlan(argv, workloads, systems) {
  const { values, positionals } = readArguments(argv, usage(workloads, systems));
  if (values.help) return 'help';
  const rounds = values.rounds === undefined ? (values.quick ? 1 : 3) : Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) {
    throw new UsageError(`--rounds needs a whole number of at least 1, not "${values.rounds}".`);
  }
  const postgres = values.postgres ?? 'bundled';
  if (postgres !== 'bundled' && postgres !== 'system') {
    throw new UsageError(`--postgres is "bundled" or "system", not "${postgres}".`);
  }
  const before = folderOf(values.before);
  const workersOf = wholeNumbers('--workers', values.workers ?? '1,4,12,24', { least: 1, most: 64 });
  const commitMsOf = wholeNumbers('--commit-ms', values['commit-ms'] ?? '0,5', { least: 0, most: 100 });
  const cases = fleetCases(workersOf, commitMsOf);
  const chosen = pick(systems, (values.only ?? '').split(','), 'system');
  if (!before && chosen.some(({ build }) => build)) throw new UsageError('holdfast-before needs --before <folder>.');
  return {
    postgres,
    before,
    workloads: pick(workloads, positionals.flatMap(spellOut), 'work').map((workload) =>
      workload.uses === 'fleet' ? { ...workload, cases } : workload,
    ),
    systems: before && !values.only ? systems.filter((system) => chosen.includes(system) || system.build) : chosen,
    rounds,
    warmSeconds: values.quick ? 0.3 : 1,
    seconds: values.quick ? 0.7 : 2.5,
    quick: values.quick ?? false,
  };
}

/** Names that stand for several workloads. */
const groups = new Map([
  ['queue', ['W4', 'W5']],
  ['messages', ['W8']],
  ['waiting', ['W9']],
  ['sleepers', ['W10']],
  ['failover', ['W11']],
  ['recovery', ['W6']],
  ['fleet', ['W12']],
  ['retention', ['W13']],
]);

/**
 * @param {string | undefined} before
 * @returns {string | undefined}
 */
function folderOf(before) {
  if (before === undefined) return undefined;
  if (existsSync(join(before, 'dist', 'index.js'))) return resolve(before);
  throw new UsageError(
    `--before is the folder packages/holdfast of another checkout, after a build; "${before}" is not.`,
  );
}

/**
 * @param {string} option
 * @param {string} list
 * @param {{ least: number, most: number }} range
 */
function wholeNumbers(option, list, { least, most }) {
  const numbers = list.split(',').map(Number);
  if (numbers.every((each) => Number.isInteger(each) && each >= least && each <= most)) return numbers;
  throw new UsageError(`${option} needs whole numbers from ${least} to ${most}, separated by commas, not "${list}".`);
}

/** @param {string} asked */
function spellOut(asked) {
  return groups.get(asked.toLowerCase()) ?? [asked];
}

/**
 * @param {import('./catalogue.mjs').Workload[]} workloads
 * @param {import('./catalogue.mjs').System[]} systems
 */
export function usage(workloads, systems) {
  return [
    'npm run bench -- [work...] [--rounds 3] [--quick] [--only system,system] [--postgres system] [--before folder]',
    '',
    'work (default: all but those that are only measured by name)',
    ...workloads.map(({ name, title, onlyByName }) => `  ${name}  ${title}${onlyByName ? ' (only by name)' : ''}`),
    ...[...groups].map(([name, members]) => `  ${name}  the same as ${members.join(' ')}`),
    '',
    `systems (default: all): ${namesOf(systems.filter((system) => !system.onlyByName))}`,
    `only by name: ${namesOf(systems.filter((system) => system.onlyByName))}`,
    '',
    '--rounds n   how often each measurement is repeated, systems interleaved; the tables show medians',
    '--postgres   "bundled" (default), or "system": the server that is installed on this machine, as it is',
    '--before     packages/holdfast of another checkout, after a build: takes part as holdfast-before',
    '--workers    how many worker processes a fleet has, e.g. 4,12 (default 1,4,12,24)',
    '--commit-ms  how much longer each commit of a fleet takes, in ms, e.g. 0,5 (default 0,5)',
    '--quick      one short round: shows that everything runs; its figures mean little',
  ].join('\n');
}

/** @param {import('./catalogue.mjs').System[]} systems */
function namesOf(systems) {
  return systems.map(({ name }) => name).join(', ');
}

/**
 * @param {string[]} argv
 * @param {string} help
 */
function readArguments(argv, help) {
  try {
    return parseArgs({
      args: argv,
      allowPositionals: true,
      options: {
        rounds: { type: 'string' },
        quick: { type: 'boolean' },
        only: { type: 'string' },
        postgres: { type: 'string' },
        before: { type: 'string' },
        workers: { type: 'string' },
        'commit-ms': { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new UsageError(`${/** @type {Error} */ (error).message}\n\n${help}`);
  }
}

/**
 * @template {{ name: string, onlyByName?: boolean }} T
 * @param {T[]} known
 * @param {string[]} asked
 * @param {string} noun
 * @returns {T[]} in the order of `known`; if `asked` is empty, all except those with `onlyByName`
 */
function pick(known, asked, noun) {
  const names = asked.map((name) => name.trim().toLowerCase()).filter(Boolean);
  for (const name of names) {
    if (!known.some((item) => item.name.toLowerCase() === name)) {
      throw new UsageError(`There is no ${noun} "${name}". There is: ${known.map((item) => item.name).join(', ')}.`);
    }
  }
  if (names.length === 0) return known.filter((item) => !item.onlyByName);
  return known.filter((item) => names.includes(item.name.toLowerCase()));
}
