/** Owns the command line: turns arguments into a plan, or into a message that says what exists. */
import { parseArgs } from 'node:util';

/**
 * @typedef {object} Plan
 * @property {import('./catalogue.mjs').Workload[]} workloads
 * @property {import('./catalogue.mjs').System[]} systems
 * @property {number} rounds
 * @property {number} warmSeconds
 * @property {number} seconds of each measured part
 * @property {boolean} quick
 * @property {'bundled' | 'system'} postgres
 */

/** What the user did, not the program: a mistake on the command line or Ctrl-C. Its message is all there is to see. */
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
  return {
    postgres,
    workloads: pick(workloads, positionals.flatMap(spellOut), 'work'),
    systems: pick(systems, (values.only ?? '').split(','), 'system'),
    rounds,
    warmSeconds: values.quick ? 0.3 : 1,
    seconds: values.quick ? 0.7 : 2.5,
    quick: values.quick ?? false,
  };
}

/** Names for several works at once. */
const groups = new Map([
  ['queue', ['W4', 'W5']],
  ['messages', ['W8']],
  ['waiting', ['W9']],
  ['sleepers', ['W10']],
  ['failover', ['W11']],
  ['recovery', ['W6']],
]);

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
    'npm run bench -- [work...] [--rounds 3] [--quick] [--only system,system] [--postgres system]',
    '',
    'work (default: all)',
    ...workloads.map(({ name, title }) => `  ${name}  ${title}`),
    ...[...groups].map(([name, members]) => `  ${name}  the same as ${members.join(' ')}`),
    '',
    `systems (default: all): ${namesOf(systems.filter((system) => !system.onlyByName))}`,
    `only by name: ${namesOf(systems.filter((system) => system.onlyByName))}`,
    '',
    '--rounds n   how often each measurement is repeated, systems interleaved; the tables show medians',
    '--postgres   "bundled" (default), or "system": the server that is installed on this machine, as it is',
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
 * @returns {T[]} in the order of `known`; if none was asked for, all but those that have to be
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
