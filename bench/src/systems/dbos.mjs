/** The DBOS SDK with its default settings, except that its log is quiet. */
import { dbosFailover } from '../failover/dbos.mjs';
import { dbosMessages } from '../messages/dbos.mjs';
import { dbosQueueSql, openDbosQueue } from '../queue/dbos.mjs';
import { dbosRecovery } from '../recovery/dbos.mjs';
import { dbosWaiting } from '../waiting/dbos.mjs';

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'postgres',
  limit: 'raw',
  async open({ url }) {
    const { DBOS } = await import('@dbos-inc/dbos-sdk');
    DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, logLevel: 'error' });
    const body = (/** @type {number} */ steps) => async (/** @type {number} */ input) => {
      let result = Number.NaN;
      for (let step = 0; step < steps; step++) result = await DBOS.runStep(async () => input, { name: 'step' });
      return result;
    };
    const oneStep = DBOS.registerWorkflow(body(1), { name: 'oneStep' });
    const tenSteps = DBOS.registerWorkflow(body(10), { name: 'tenSteps' });
    await DBOS.launch();
    return {
      run: (steps, input) => (steps === 1 ? oneStep(input) : tenSteps(input)),
      close: () => DBOS.shutdown(),
    };
  },
  queue: {
    settings: 'its defaults, which are to poll once a second',
    pollMs: 1000,
    items: { idle: 15, serial: 10, capped: 100 },
    ...dbosQueueSql,
    open: openDbosQueue({}),
  },
  messages: { settings: 'its defaults: notifications', ...dbosMessages({}) },
  waiting: dbosWaiting,
  failover: dbosFailover,
  recovery: dbosRecovery,
};
