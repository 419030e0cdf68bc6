/** Holdfast's retention, through its public API. */
import { library } from '../library.mjs';

/** @type {import('./retention.mjs').RetentionAdapter} */
export const holdfastRetention = {
  async open({ url, retains }) {
    const { launch, run, workflow } = await library();
    const oneStep = workflow('oneStep', async (/** @type {number} */ input) => run('step', async () => input));
    const app = await launch({
      name: 'bench',
      database: url,
      version: 'bench',
      workflows: [oneStep],
      logger: { debug() {}, info() {}, warn: console.warn, error: console.error },
      ...(retains && { retention: { after: '1d', every: '1s' } }),
    });
    return { run: (input) => oneStep(input), close: () => app.shutdown() };
  },
};
