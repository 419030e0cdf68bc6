/**
 * graphile-worker's side of a queue measurement. It keeps neither finished jobs nor results: what is proven of it is
 * that every body ran once and that no job is left.
 */

/** The settings of the project's own benchmark, https://worker.graphile.org/docs/performance */
const throughput = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

/** A short way from the announcement to the body: no local queue, no wait to share a commit with others. */
const latency = { concurrentJobs: 4, maxPoolSize: 10 };

/**
 * The named queue of a job is freed by a statement that nobody waits for. With more connections the next fetch overtakes
 * it, finds the queue taken and sleeps for a poll interval. Of two connections one listens, so the other keeps the order.
 */
const serial = { concurrentJobs: 1, maxPoolSize: 2 };

/** @param {import('./fleet.mjs').QueueSpec} queue */
function settingsFor({ idle, concurrency, workerConcurrency }) {
  if (idle) return latency;
  if (concurrency) return serial;
  return workerConcurrency ? { ...throughput, concurrentJobs: workerConcurrency } : throughput;
}

/** @type {import('./fleet.mjs').QueueAdapter} */
export const graphileQueue = {
  settings:
    'drain: concurrentJobs 24, maxPoolSize 25, localQueue.size 500, completeJobBatchDelay 0; concurrency 1: a named ' +
    'queue, concurrentJobs 1, maxPoolSize 2; workerConcurrency 10: as drain with concurrentJobs 10; idle: ' +
    'concurrentJobs 4, no local queue',
  pendingSql: 'select exists (select from graphile_worker._private_jobs where $1::text is not null) as pending',

  async open({ url, queue, body }) {
    const { default: pg } = await import('pg');
    const { Logger, makeWorkerUtils, run } = await import('graphile-worker');
    const logger = new Logger(() => (level, message) => {
      if (level === 'error') console.error(message);
    });
    const settings = settingsFor(queue);
    const pgPool = new pg.Pool({ connectionString: url, max: settings.maxPoolSize });
    // It insists on both handlers.
    pgPool.on('error', () => {});
    pgPool.on('connect', (client) => client.on('error', () => {}));
    const utils = await makeWorkerUtils({ pgPool, logger });
    await utils.migrate();
    await openAll(pgPool, settings.maxPoolSize);
    /** @type {import('graphile-worker').Runner | undefined} */
    let runner;
    const queueName = queue.concurrency === 1 ? queue.name : undefined;
    return {
      async begin() {
        runner = await run({
          pgPool,
          parsedCronItems: [],
          noHandleSignals: true,
          taskList: { [queue.name]: (/** @type {any} */ { input }) => body(input) },
          preset: { worker: { logger, ...settings } },
        });
      },
      async enqueue(input) {
        await utils.addJob(queue.name, { input }, { queueName });
        return {};
      },
      enqueueAll: (inputs) =>
        utils.addJobs(inputs.map((input) => ({ identifier: queue.name, payload: { input }, queueName }))),
      async close() {
        await runner?.stop();
        await utils.release();
        await pgPool.end();
      },
    };
  },
};

/**
 * Connects now, so that it is not done while the time runs.
 *
 * @param {import('pg').Pool} pool
 * @param {number} size
 */
async function openAll(pool, size) {
  const clients = await Promise.all(Array.from({ length: size }, () => pool.connect()));
  for (const client of clients) client.release();
}
