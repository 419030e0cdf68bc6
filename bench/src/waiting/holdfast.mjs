/** Holdfast's waiting workflows, through its public API. */
import { launchBench } from '../holdfast.mjs';
import { library } from '../library.mjs';

/** @type {import('./memory.mjs').WaitingAdapter} */
export const holdfastWaiting = {
  async open({ url }) {
    const { sleep, topic, workflow } = await library();
    const mail = topic('mail');
    const waits = {
      receive: workflow('receives', async () => mail.receive({ timeout: '1d' })),
      sleep: workflow('sleeps', async () => sleep('1d')),
    };
    await launchBench(url, Object.values(waits));
    return { start: (kind) => waits[kind].start() };
  },
};
