/** Holdfast's side of a failover, through its public API and with its defaults. */
import { library } from '../library.mjs';

const common = { name: 'bench', logger: { debug() {}, info() {}, warn: console.warn, error: console.error } };

/** @type {import('./failover.mjs').FailoverAdapter} */
export const holdfastFailover = {
  async openExecutor({ url, queue: name, workerConcurrency, step, steps }) {
    const { launch, queue, run, workflow } = await library();
    const work = workflow('work', async (/** @type {string} */ id) => {
      for (let n = 0; n < steps; n++) await run('step', () => step(id, n));
    });
    const queues = [queue(name, { workerConcurrency })];
    return launch({ ...common, database: url, version: 'bench', workflows: [work], queues });
  },

  async openStarter({ url, queue }) {
    const { connect } = await library();
    const client = await connect({ ...common, database: url });
    const options = { queue, version: 'bench' };
    return {
      start: (ids) =>
        client.startAll(
          'work',
          options,
          ids.map((id) => [id]),
          ([id]) => ({ id: String(id) }),
        ),
      allow: (workerConcurrency) => client.queues.update(queue, { workerConcurrency }),
      close: () => client.close(),
    };
  },
};
