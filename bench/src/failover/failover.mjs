/**
 * Owns how a failover is measured. Three executors share a hundred workflows, and one executor is killed with SIGKILL.
 * Two times are measured: until a step of the victim's workflows runs on another executor, and until all these
 * workflows have completed. A new process replaces the victim before the next round. With `victim: 'newest'`, the
 * victim is an executor that was just launched, and it is killed at a random moment after its launch.
 *
 * @typedef {object} Post describes the executor that an adapter opens
 * @property {string} url
 * @property {string} queue the name of the queue
 * @property {number} workerConcurrency how many workflows an executor may have at the same time
 * @property {(workflow: string, step: number) => Promise<string>} step what each step of a workflow does and returns
 * @property {number} steps the number of steps
 *
 * @typedef {object} OpenStarter
 * @property {(ids: string[]) => Promise<unknown>} start enqueues a workflow per ID; the ID is also its input
 * @property {(limit: number) => Promise<unknown>} allow changes how many workflows an executor may have
 * @property {() => Promise<unknown>} close
 *
 * @typedef {object} FailoverAdapter
 * @property {(post: Post) => Promise<unknown>} openExecutor resolves when it takes work; the first creates the schema
 * @property {(post: Omit<Post, 'step'>) => Promise<OpenStarter>} openStarter opens a process that runs no workflows
 *
 * @typedef {FailoverAdapter & { system: string, url: string }} FailoverSystem
 *
 * @typedef {ReturnType<typeof startContestant> & { name: string }} Executor
 */
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startContestant } from '../contestant.mjs';
import { percentile } from '../drive.mjs';
import { clock } from '../queue/ledger.mjs';
import { readDiaries } from './diary.mjs';
import { checkRows, openRows } from './rows.mjs';

/** If a system has not continued the victim's work by then, it counts as never. */
const patienceMs = 30_000;

const [executorCount, workflowCount, steps] = [3, 100, 10];
const post = { queue: 'failover', steps, workerConcurrency: Math.ceil(workflowCount / executorCount) };

/** When the victim is killed, counted from the moment at which all workflows are running: about half-way. */
const killAfterMs = { least: 200, most: 500 };

/** When a newly launched victim is killed. The other executors have work for longer than that. */
const [newestLivesMs, newestWorkflowCount] = [1_500, 250];

/**
 * @param {FailoverSystem} system
 * @param {number} rounds
 * @param {'any' | 'newest'} [victim]
 * @returns {Promise<import('../catalogue.mjs').Measured>}
 */
export async function measureFailover(system, rounds, victim = 'any') {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-bench-failover-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  /** @type {Executor[]} */
  const executors = [];
  let opened = 0;
  const replenish = async (count = executorCount) => {
    while (executors.length < count) {
      const name = `e${++opened}`;
      const executor = { name, ...startContestant() };
      executors.push(executor);
      const diary = join(folder, name);
      await executor.ask({
        do: 'openExecutor',
        system: system.system,
        post: { url: system.url, ...post },
        name,
        diary,
      });
    }
  };
  await replenish(victim === 'any' ? executorCount : executorCount - 1);
  const rows = await openRows(system.url);
  const starter = await system.openStarter({ url: system.url, ...post });
  /** @type {{ first: number, all: number }[]} */
  const took = [];
  try {
    for (let round = 0; took.length < rounds && took.at(-1)?.first !== Number.POSITIVE_INFINITY; round++) {
      await replenish(victim === 'any' ? executorCount : executorCount - 1);
      const stage = { round, executors, starter, rows, folder };
      const times = await (victim === 'any' ? killOne(stage) : killNewest({ ...stage, launch: () => replenish() }));
      if (times) took.push(times);
    }
    await starter.close();
  } finally {
    await rows.close();
    await Promise.all(executors.map((each) => each.stop()));
    rmSync(folder, { recursive: true, force: true });
  }
  return { workflows: rounds * workflowCount, steps: 0, values: { ...spread('first', took), ...spread('all', took) } };
}

/**
 * @typedef {object} Stage
 * @property {number} round
 * @property {Executor[]} executors the victim is removed from this list
 * @property {OpenStarter} starter
 * @property {import('./rows.mjs').Rows} rows
 * @property {string} folder
 */

/** @param {Stage} stage */
async function killOne({ round, executors, starter, rows, folder }) {
  const ids = Array.from({ length: workflowCount }, (_, i) => `${round}-${i}`);
  const entries = () => readDiaries(folder, ids);
  // Each executor gets its share first. Then the limit rises, so that the two survivors can run all workflows.
  await starter.allow(post.workerConcurrency);
  await starter.start(ids);
  await until(
    'all workflows are under way',
    () => new Set(entries().map(({ workflow }) => workflow)).size === ids.length,
  );
  await starter.allow(workflowCount);
  await pause(killAfterMs.least + Math.random() * (killAfterMs.most - killAfterMs.least));

  const [victim] = executors.splice(round % executors.length, 1);
  const killedAt = clock();
  await victim.stop();
  const its = new Set(entries().flatMap(({ executor, workflow }) => (executor === victim.name ? workflow : [])));
  if (its.size < workflowCount / executorCount / 2) throw new Error(`The victim had ${its.size} workflows only.`);
  return timesOf({ rows, entries, ids, its, victim, killedAt });
}

/**
 * @param {Stage & { launch: () => Promise<void> }} stage
 * @returns {Promise<{ first: number, all: number } | undefined>} undefined if the victim had begun no workflow
 */
async function killNewest({ round, executors, starter, rows, folder, launch }) {
  const ids = Array.from({ length: newestWorkflowCount }, (_, i) => `${round}-${i}`);
  const entries = () => readDiaries(folder, ids);
  await starter.start(ids);
  await until('there is work under way', () => entries().length > 0);
  await launch();
  await pause(Math.random() * newestLivesMs);
  const [victim] = executors.splice(-1, 1);
  const killedAt = clock();
  await victim.stop();
  const left = new Set(entries().flatMap(({ executor, workflow }) => (executor === victim.name ? workflow : [])));
  for (const { workflow, step } of entries()) if (step === steps - 1) left.delete(workflow);
  const times = left.size === 0 ? undefined : await timesOf({ rows, entries, ids, its: left, victim, killedAt });
  if ((await rows.finished(ids, clock() + patienceMs)) === undefined) throw new Error('Workflows of others got lost.');
  return times;
}

/**
 * @param {object} kill
 * @param {import('./rows.mjs').Rows} kill.rows
 * @param {() => import('./diary.mjs').Entry[]} kill.entries
 * @param {string[]} kill.ids
 * @param {Set<string>} kill.its the workflows that the victim was running
 * @param {Executor} kill.victim
 * @param {number} kill.killedAt
 */
async function timesOf({ rows, entries, ids, its, victim, killedAt }) {
  const resumed = () => entries().filter(({ executor, workflow }) => executor !== victim.name && its.has(workflow));

  const allDone = await rows.finished([...its], killedAt + patienceMs);
  const first = Math.min(...resumed().map(({ at }) => at)) - killedAt;
  if (allDone === undefined && Number.isFinite(first)) {
    throw new Error(`It resumed some of the victim's ${its.size} workflows, and not all were done after 30 s.`);
  }
  if (allDone === undefined) return { first: Number.POSITIVE_INFINITY, all: Number.POSITIVE_INFINITY };
  if ((await rows.finished(ids, clock() + patienceMs)) === undefined) throw new Error('Workflows of others got lost.');
  checkRows(await rows.steps(ids), entries(), { ids, steps });
  return { first, all: allDone - killedAt };
}

/**
 * @param {'first' | 'all'} key
 * @param {{ first: number, all: number }[]} took
 */
function spread(key, took) {
  const sorted = took.map((each) => each[key]).sort((a, b) => a - b);
  return { [`${key}P50`]: percentile(sorted, 0.5), [`${key}Max`]: percentile(sorted, 1) };
}

/**
 * @param {string} what
 * @param {() => boolean} check
 */
async function until(what, check) {
  const end = clock() + patienceMs;
  while (!check()) {
    if (clock() > end) throw new Error(`It was not so within 30 s that ${what}.`);
    await pause(5);
  }
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
