/**
 * pg-boss's side of a queue measurement. In its fastest mode, pg-boss passes a batch to the handler and completes the
 * batch as one: an error in one body fails the whole batch. With `perJobResults`, each job has its own outcome, like a
 * workflow.
 */

/** The number of connections used at the same time. The pool may open ten. */
const connections = 5;

/**
 * @param {{ drain: { batchSize: number, localConcurrency: number }, perJobResults: boolean }} tuning
 * @returns {Pick<import('./fleet.mjs').QueueAdapter, 'open' | 'pendingSql' | 'finishedSql'>}
 */
export function pgBossQueue(tuning) {
  return {
    pendingSql: `select exists (select from pgboss.job where name = $1 and state < 'completed') as pending`,
    finishedSql: `select count(*) as finished from pgboss.job where name = $1 and state = 'completed'`,

    async open({ url, queue, role, body }) {
      const { PgBoss } = await import('pg-boss');
      const boss = new PgBoss({ connectionString: url, useListenNotify: true });
      boss.on('error', console.error);
      await boss.start();
      const serial = queue.concurrency === 1;
      if (role !== 'worker') {
        await boss.createQueue(queue.name, { notify: true, policy: serial ? 'singleton' : 'standard' });
      }
      // The statements take long enough that each opens its own connection, before the measurement starts.
      await Promise.all(Array.from({ length: connections }, () => boss.getDb().executeSql('select pg_sleep(0.05)')));
      const settings = { ...workSettings(queue, tuning.drain), perJobResults: tuning.perJobResults };
      return {
        async begin() {
          /** @type {string | undefined} */
          let worker;
          worker = await boss.work(queue.name, settings, async (/** @type {any[]} */ jobs) => {
            for (const { data } of jobs) body(data.input);
            // Otherwise pg-boss would sleep before each item, because a batch of one does not count as full.
            if (serial && worker) boss.notifyWorker(worker);
            return jobs.map(({ id }) => ({ id, status: 'completed' }));
          });
        },
        async enqueue(input) {
          await boss.send(queue.name, { input });
          return {};
        },
        enqueueAll: (inputs) =>
          boss.insert(
            queue.name,
            inputs.map((input) => ({ data: { input } })),
          ),
        close: () => boss.stop(),
      };
    },
  };
}

/**
 * @param {import('./fleet.mjs').QueueSpec} queue
 * @param {{ batchSize: number, localConcurrency: number }} drain
 */
function workSettings({ idle, concurrency, workerConcurrency }, drain) {
  if (idle || concurrency) return {};
  const settings = workerConcurrency ? { batchSize: workerConcurrency } : drain;
  return { ...settings, burstWhenBatchFull: true };
}
