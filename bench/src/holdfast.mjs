import { library } from './library.mjs';

/**
 * Launches an app for a measurement of Holdfast. Its settings are those that users would choose.
 *
 * @param {string} url
 * @param {import('holdfast').AnyWorkflow[]} workflows
 */
export async function launchBench(url, workflows) {
  const { launch } = await library();
  return launch({
    name: 'bench',
    database: url,
    version: 'bench',
    workflows,
    logger: { debug() {}, info() {}, warn: console.warn, error: console.error },
  });
}

/**
 * Holdfast through its public API. The two systems differ only in their database.
 *
 * @type {import('./catalogue.mjs').System['open']}
 */
export const openHoldfast = async ({ url }) => {
  const { run, workflow } = await library();
  const body = (/** @type {number} */ steps) => async (/** @type {number} */ input) => {
    let result = Number.NaN;
    for (let step = 0; step < steps; step++) result = await run('step', async () => input);
    return result;
  };
  const oneStep = workflow('oneStep', body(1));
  const tenSteps = workflow('tenSteps', body(10));
  const app = await launchBench(url, [oneStep, tenSteps]);
  return {
    run: (steps, input) => (steps === 1 ? oneStep(input) : tenSteps(input)),
    close: () => app.shutdown(),
  };
};
