/** DBOS's waiting workflows. */

const daySeconds = 86_400;

/** @type {import('./memory.mjs').WaitingAdapter} */
export const dbosWaiting = {
  async open({ url }) {
    const { DBOS } = await import('@dbos-inc/dbos-sdk');
    DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, logLevel: 'error' });
    const waits = {
      receive: DBOS.registerWorkflow(async () => DBOS.recv('mail', daySeconds), { name: 'receives' }),
      sleep: DBOS.registerWorkflow(async () => DBOS.sleepSeconds(daySeconds), { name: 'sleeps' }),
    };
    await DBOS.launch();
    return { start: (kind) => DBOS.startWorkflow(/** @type {() => Promise<unknown>} */ (waits[kind]))() };
  },
};
