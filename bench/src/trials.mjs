/**
 * Owns the order and the results of a run. For each round and each workload, every system gets one trial. A trial has
 * its own process and its own database, measures all cases of the workload, and removes both. Systems are therefore
 * compared within seconds of each other, one at a time. The figures of a workload do not depend on which other
 * workloads run.
 *
 * A workload on queues, messages or waiting workflows has a separate trial for each case. Leftovers of one case (for
 * example graphile-worker's deleted rows) therefore do not slow the next case. Each case checks itself that all work
 * was done. Its cost is not counted, because the cost would include opening and closing the system.
 *
 * @typedef {object} Sample one case of one trial
 * @property {string} system
 * @property {string} workload
 * @property {string} caseLabel
 * @property {Record<string, number>} values by row key
 * @property {PerWorkflow} [perWorkflow]
 *
 * @typedef {Record<'statements' | 'commits' | 'walBytes' | 'diskBytes' | 'nodeMs' | 'postgresMs', number | null>} PerWorkflow
 *
 * @typedef {{ system: string, workload: string, caseLabel?: string, message: string }} Failure
 *   `caseLabel`: only for a fleet, where a failure of one case does not void the other cases
 */
import { takesPart } from './catalogue.mjs';
import { startContestant } from './contestant.mjs';
import { figure } from './figures.mjs';
import { commitSettings } from './fleet/cases.mjs';
import { measureFleet } from './fleet/trial.mjs';
import { createPostgresStorage, createSqliteStorage } from './storage.mjs';

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./postgres.mjs').PostgresServer} server
 * @param {(line: string) => void} progress
 * @param {AbortSignal} interrupt
 * @returns {Promise<{ samples: Sample[], failures: Failure[] }>}
 */
export async function runTrials(plan, server, progress, interrupt) {
  /** @type {Sample[]} */
  const samples = [];
  /** @type {Failure[]} */
  const failures = [];
  for (let round = 0; round < plan.rounds; round++) {
    for (const { workload, run, caseLabel } of plan.workloads.flatMap(trialsOf)) {
      for (const system of rotate(plan.systems, round).filter((each) => takesPart(each, workload))) {
        interrupt.throwIfAborted();
        const trial = { system: system.name, workload: workload.name, caseLabel };
        if (failures.some((failure) => concerns(failure, trial))) continue;
        const report = (/** @type {string} */ what) =>
          progress(`round ${round + 1}/${plan.rounds}  ${workload.name}  ${system.name.padEnd(18)} ${what}`);
        try {
          samples.push(...(await run(plan, server, workload, system, report)));
        } catch (error) {
          interrupt.throwIfAborted();
          const message = /** @type {Error} */ (error).message;
          report(`FAILED: ${message}`);
          failures.push({ ...trial, message });
        }
      }
    }
  }
  // A system that failed in a workload has no figures for it, not even from earlier rounds.
  const isVoid = (/** @type {Sample} */ sample) => failures.some((failure) => concerns(failure, sample));
  return { samples: samples.filter((sample) => !isVoid(sample)), failures };
}

/**
 * @param {Failure} failure
 * @param {{ system: string, workload: string, caseLabel?: string }} trial
 */
function concerns(failure, trial) {
  const isSame = failure.system === trial.system && failure.workload === trial.workload;
  return isSame && (failure.caseLabel === undefined || failure.caseLabel === trial.caseLabel);
}

/**
 * @param {import('./catalogue.mjs').Workload} workload
 * @returns {{ workload: import('./catalogue.mjs').Workload, run: typeof runTrial, caseLabel?: string }[]}
 */
function trialsOf(workload) {
  if (workload.uses === 'open') return [{ workload, run: runTrial }];
  if (workload.uses === 'fleet') {
    return workload.cases.map((each) => ({
      workload,
      run: (...args) => runFleetTrial(each, ...args),
      caseLabel: each.label,
    }));
  }
  return workload.cases.map((_, index) => ({ workload, run: (...args) => runCaseTrial(index, ...args) }));
}

let databases = 0;

/**
 * @param {import('./postgres.mjs').PostgresServer} server
 * @param {import('./catalogue.mjs').System} system
 */
function createStorage(server, system) {
  if (system.storage !== 'postgres') return createSqliteStorage(system.scheme);
  return createPostgresStorage(server, `trial_${++databases}`, system.settings);
}

/**
 * @param {import('./catalogue.mjs').Case} fleetCase
 * @param {Parameters<typeof runTrial>} args
 * @returns {Promise<Sample[]>}
 */
async function runFleetTrial({ label, rows, fleet }, ...[plan, server, workload, system, report]) {
  const fleetCase = /** @type {import('./fleet/trial.mjs').FleetCase} */ (fleet);
  const database = `trial_${++databases}`;
  const settings = { ...system.settings, ...commitSettings(fleetCase) };
  const storage = await createPostgresStorage(server, database, settings);
  try {
    const { url } = storage;
    const values = await measureFleet({ server, database, url, system, fleetCase, quick: plan.quick });
    report(`${label}: ${summary(rows, values)}`);
    return [{ system: system.name, workload: workload.name, caseLabel: label, values }];
  } finally {
    await storage.drop();
  }
}

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./postgres.mjs').PostgresServer} server
 * @param {import('./catalogue.mjs').Workload} workload
 * @param {import('./catalogue.mjs').System} system
 * @param {(what: string) => void} report
 */
async function runTrial(plan, server, workload, system, report) {
  const storage = await createStorage(server, system);
  const contestant = startContestant(system);
  try {
    await contestant.ask({ do: 'open', system: system.name, url: storage.url, uses: 'open' });
    /** @type {Sample[]} */
    const samples = [];
    const claimed = { workflows: 0, steps: 0 };
    for (const [index, { label, rows }] of workload.cases.entries()) {
      const measure = async (/** @type {number} */ seconds) => {
        const request = { do: 'measure', workload: workload.name, case: index, seconds, quick: plan.quick };
        const measured = await contestant.ask(request);
        claimed.workflows += measured.workflows;
        claimed.steps += measured.steps;
        return measured;
      };
      await measure(plan.warmSeconds);
      const endCount = await storage.countCost();
      const measured = await measure(plan.seconds);
      const cost = await endCount();
      samples.push({
        system: system.name,
        workload: workload.name,
        caseLabel: label,
        values: measured.values,
        perWorkflow: perWorkflow(measured, cost),
      });
      report(summary(rows, measured.values));
    }
    await contestant.ask({ do: 'close' });
    compareRows(claimed, await storage.countRows());
    return samples;
  } finally {
    await contestant.stop();
    await storage.drop();
  }
}

/**
 * @param {number} index of the case
 * @param {Parameters<typeof runTrial>} args
 * @returns {Promise<Sample[]>}
 */
async function runCaseTrial(index, ...[plan, server, workload, system, report]) {
  const storage = await createStorage(server, system);
  const contestant = startContestant(system);
  try {
    await contestant.ask({ do: 'open', system: system.name, url: storage.url, uses: workload.uses });
    const { values } = await contestant.ask({ do: 'measure', workload: workload.name, case: index, quick: plan.quick });
    const { label, rows } = workload.cases[index];
    const short = rows.map((row) => ({ ...row, label: row.label.slice(label.length + ', '.length) }));
    if (Object.keys(values).length > 0) report(`${label}: ${summary(short, values)}`);
    return [{ system: system.name, workload: workload.name, caseLabel: label, values }];
  } finally {
    await contestant.stop();
    await storage.drop();
  }
}

/**
 * @param {import('./catalogue.mjs').Row[]} rows
 * @param {Record<string, number>} values
 */
function summary(rows, values) {
  const known = rows.filter((row) => values[row.key] !== undefined);
  return known.map((row) => `${row.label} = ${figure(values[row.key])}`).join(', ');
}

/**
 * @param {{ workflows: number, steps: number }} claimed
 * @param {{ finished: number, steps: number }} found
 */
function compareRows(claimed, found) {
  if (found.finished >= claimed.workflows && found.steps >= claimed.steps) return;
  throw new Error(
    `It claims ${claimed.workflows} workflows with ${claimed.steps} steps, ` +
      `but its database holds ${found.finished} finished workflows and ${found.steps} steps.`,
  );
}

/**
 * @param {{ workflows: number, cpuMs: number }} measured
 * @param {import('./counters.mjs').Cost | null} cost null for a database that lives inside the Node process
 * @returns {PerWorkflow}
 */
function perWorkflow({ workflows, cpuMs }, cost) {
  const each = (/** @type {number | null | undefined} */ total) => (total == null ? null : total / workflows);
  return {
    statements: each(cost?.statements),
    commits: each(cost?.commits),
    walBytes: each(cost?.walBytes),
    diskBytes: each(cost?.diskBytes),
    nodeMs: each(cpuMs),
    postgresMs: each(cost?.cpuMs),
  };
}

/**
 * @template T
 * @param {T[]} items
 * @param {number} by
 */
function rotate(items, by) {
  const start = by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}
