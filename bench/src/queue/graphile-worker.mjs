/**
 * graphile-worker's side of a queue measurement. graphile-worker keeps neither finished jobs nor results. Therefore the
 * measurement proves only that every body ran once and that no job is left.
 */

/** The settings of the project's own benchmark, https://worker.graphile.org/docs/performance */
const throughput = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

/** Settings for a short time from notification to body: no local queue, and no wait for a shared commit. */
const latency = { concurrentJobs: 4, maxPoolSize: 10 };

/**
 * The statement that frees the named queue of a job is not awaited. With more connections, the next fetch may overtake
 * that statement, find the queue locked, and sleep for a poll interval. With two connections, one listens, and the
 * other runs the statements in order.
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
    // graphile-worker requires both handlers.
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
 * Opens the connections before the measurement starts.
 *
 * @param {import('pg').Pool} pool
 * @param {number} size
 */
async function openAll(pool, size) {
  const clients = await Promise.all(Array.from({ length: size }, () => pool.connect()));
  for (const client of clients) client.release();
}
