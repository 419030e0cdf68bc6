/**
 * Owns the diary in which executors record the steps that they run. The operating system has a line before the step
 * continues, so the diary of a killed process is complete.
 *
 * @typedef {{ executor: string, workflow: string, step: number, run: string, at: number }} Entry
 *   `run` identifies one run of the step. The step returns it, so a checkpoint shows which run it stores
 */
import { openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { clock } from '../queue/ledger.mjs';

const stepMs = 100;

/**
 * @param {string} path
 * @param {string} executor
 * @returns {(workflow: string, step: number) => Promise<string>} the body of a step
 */
export function openDiary(path, executor) {
  const file = openSync(path, 'a');
  let runs = 0;
  return async (workflow, step) => {
    const run = `${executor}.${++runs}`;
    writeSync(file, `${workflow} ${step} ${run} ${clock()}\n`);
    await new Promise((resolve) => setTimeout(resolve, stepMs));
    return run;
  };
}

/**
 * Returns all entries about these workflows, of living and dead executors.
 *
 * @param {string} folder
 * @param {string[]} workflows
 * @returns {Entry[]}
 */
export function readDiaries(folder, workflows) {
  const wanted = new Set(workflows);
  return readdirSync(folder).flatMap((executor) =>
    readFileSync(join(folder, executor), 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => line.split(' '))
      .filter(([workflow]) => wanted.has(workflow))
      .map(([workflow, step, run, at]) => ({ executor, workflow, step: Number(step), run, at: Number(at) })),
  );
}
