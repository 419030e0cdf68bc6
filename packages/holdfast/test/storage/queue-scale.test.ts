import pg from 'pg';
import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { gate } from '../support/faults.js';

/** Many queues or partitions must not cost one statement each. */
const never = { onConflict: 'never' as const };

describeBackends('an app with 1,000 queues', (backend) => {
  const queues = Array.from({ length: 1_000 }, (_, i) =>
    queue(`q${i}`, { concurrency: 2, ...(i % 2 && { partition: { concurrency: 1 } }), ...(i === 7 && never) }),
  );

  it('is launched with as many statements as one with a single queue of each kind', async () => {
    const sent = async (given: typeof queues): Promise<string[]> => {
      const t = await backend.testApp({ queues: given });
      return t.statements.filter((name) => name.startsWith('queues.'));
    };
    const many = await sent(queues);
    expect(many).toEqual(
      await sent([queue('a'), queue('b', { partition: {} }), queue('c', { partition: {}, ...never })]),
    );
    expect(many).toHaveLength(8);
  });

  it('lists the queues with their counts in one statement', async () => {
    const work = workflow('work', async () => {});
    const t = await backend.testApp({ queues, workflows: [work], listen: [] });
    await work.with({ queue: 'q4' }).start();
    await work.with({ queue: 'q6', delay: '1h' }).start();
    const before = t.statements.length;
    const list = await t.app.queues.list();
    expect(t.statements.slice(before).filter((name) => name !== 'signals.announce')).toEqual(['queues.counted']);
    expect(list).toHaveLength(queues.length);
    const busy = list.filter(({ waiting, running, delayed }) => waiting + running + delayed > 0);
    expect(busy).toMatchObject([
      { name: 'q4', waiting: 1, running: 0, delayed: 0 },
      { name: 'q6', waiting: 0, running: 0, delayed: 1 },
    ]);
  });
});

describeBackends(
  'a queue with 10,000 partitions',
  (backend) => {
    const partitions = 10_000;
    const crowd = 200;
    const maxEntries = 5_000;

    it('is drained fairly, by few statements, on a table without planner statistics', async () => {
      const started: string[] = [];
      const drained = gate();
      const work = workflow('work', async (key: string) => {
        started.push(key);
        if (started.length === partitions + crowd) drained.open();
      });
      const parted = queue('parted', { workerConcurrency: 2_000, partition: { concurrency: 50 } });
      const database = await backend.newDatabase();
      await keepUnanalysed(database);
      const t = await backend.testApp({ database, queues: [parted], workflows: [work], clock: 'real' });
      await t.app.queues.pause('parted');
      // One partition gets hundreds of workflows before the other partitions get one each.
      const keys = [...Array(crowd).fill('crowd'), ...Array.from({ length: partitions }, (_, i) => `p${i}`)];
      const inputs = keys.map((key: string): [string] => [key]);
      await work.with({ queue: parted }).startAll(inputs, ([partition]) => ({ partition }));
      const before = t.statements.length;
      await t.app.queues.resume('parted');
      await drained.promise;
      expect(new Set(started).size).toBe(partitions + 1);
      const lastOfOthers = started.findLastIndex((key) => key !== 'crowd');
      expect(started.slice(0, lastOfOthers).filter((key) => key === 'crowd').length).toBeLessThan(crowd / 4);
      const sent = t.statements.slice(before);
      const count = (part: string): number => sent.filter((name) => name.includes(part)).length;
      // A query covers 200 partitions, and covers each partition once or twice.
      expect(count('queues.partitions')).toBeLessThan(4 * (partitions / 200));
      expect(count('dequeue')).toBeLessThan(partitions / 100);
      // A plan that scans the whole queue for each partition would read ten thousand entries. A good plan reads
      // hundreds, and more on a busy machine: dead entries are read until no snapshot of the other lane needs them.
      await t.app.shutdown();
      expect((await entriesRead(database)) / started.length).toBeLessThan(maxEntries);
    });
  },
  ['postgres'],
);

/** Counts the index entries of workflows read so far. A connection reports its reads when it ends. */
async function entriesRead(database: string): Promise<number> {
  const client = new pg.Client(database);
  await client.connect();
  const others =
    "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name <> ''";
  await expect.poll(async () => (await client.query(others)).rows).toEqual([]);
  const read = "select sum(idx_tup_read) as n from pg_stat_user_indexes where relname = 'workflow_status'";
  const { rows } = await client.query(read);
  await client.end();
  return Number(rows[0].n);
}

async function keepUnanalysed(database: string): Promise<void> {
  const client = new pg.Client(database);
  await client.connect();
  await client.query('alter table dbos.workflow_status set (autovacuum_enabled = false)');
  await client.end();
}
