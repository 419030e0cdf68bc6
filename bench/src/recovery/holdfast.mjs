/** Holdfast's side of a recovery, through its public API and with its defaults. */
import { library } from '../library.mjs';

/** @type {import('./recovery.mjs').RecoveryAdapter} */
export const holdfastRecovery = {
  async openExecutor({ url, first, second }) {
    const { launch, run, workflow } = await library();
    const work = workflow('work', async (/** @type {number} */ input) => {
      await run('first', () => first(input));
      return run('second', () => second(input));
    });
    await launch({
      name: 'bench',
      database: url,
      version: 'bench',
      executorId: 'bench',
      workflows: [work],
      logger: { debug() {}, info() {}, warn: console.warn, error: console.error },
    });
    return (id, input) => work.with({ id }).start(input);
  },
};
