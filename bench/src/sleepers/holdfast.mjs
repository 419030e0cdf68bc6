/** Holdfast's sleepers, through its public API. */
import { launchBench } from '../holdfast.mjs';
import { library } from '../library.mjs';

/** @type {import('./sleepers.mjs').SleepersAdapter} */
export const holdfastSleepers = {
  async open({ url, woke }) {
    const { sleep, workflow } = await library();
    const sleeper = workflow('sleeper', async (/** @type {number} */ wakeAt, /** @type {number} */ sleepMs) => {
      await sleep(sleepMs);
      woke(wakeAt);
    });
    const app = await launchBench(url, [sleeper]);
    return {
      start: (wakeAt) => sleeper.start(wakeAt, Math.max(0, wakeAt - Date.now())),
      unfinished: async () => (await app.workflows.list({ status: ['PENDING'], limit: 1 })).length,
      close: () => app.shutdown(),
    };
  },
};
