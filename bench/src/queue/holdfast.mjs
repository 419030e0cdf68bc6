/** Holdfast's side of a queue measurement, through its public API. */
import { library } from '../library.mjs';

/** @type {import('./fleet.mjs').QueueAdapter} */
export const holdfastQueue = {
  settings: 'its defaults',
  pendingSql: `select exists (select 1 from dbos.workflow_status where queue_name = $1
    and status in ('ENQUEUED', 'PENDING')) as pending`,
  finishedSql: `select count(*) as finished from dbos.workflow_status where queue_name = $1 and status = 'SUCCESS'`,

  async open({ url, queue: { name, concurrency, workerConcurrency }, role, body }) {
    const { launch, queue, workflow } = await library();
    const limits = { ...(concurrency && { concurrency }), ...(workerConcurrency && { workerConcurrency }) };
    const measured = queue(name, limits);
    const noop = workflow('noop', async (/** @type {number} */ input) => body(input));
    const app = await launch({
      name: 'bench',
      database: url,
      version: 'bench',
      workflows: [noop],
      queues: [measured],
      listen: role === 'enqueuer' ? [] : [name],
      logger: { debug() {}, info() {}, warn: console.warn, error: console.error },
    });
    if (role === 'enqueuer') await app.queues.pause(name);
    const enqueued = noop.with({ queue: measured });
    return {
      // A pause applies to the whole fleet, and the first worker that begins ends it for all workers.
      async begin() {
        if (role === 'worker') await app.queues.resume(name);
      },
      async enqueue(input) {
        const handle = await enqueued.start(input);
        return { result: () => handle.result() };
      },
      enqueueAll: (inputs) => enqueued.startAll(inputs.map((input) => [input])),
      close: () => app.shutdown(),
    };
  },
};
