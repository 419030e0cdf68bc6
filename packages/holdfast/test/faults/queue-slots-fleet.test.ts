import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { connect, queue } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { report, requireBuild } from './child-process.js';
import { violations } from './invariants.js';
import { Ledger } from './ledger.js';
import { Fleet } from './queue-fleet.js';
import { installGauge } from './queue-gauge.js';
import { openRows } from './rows.js';

const seed = process.env.HOLDFAST_FAULT_SEED ?? String(Date.now() % 1_000_000);
/** HOLDFAST_FLEET_JOBS=10000 for the full test. */
const jobs = Number(process.env.HOLDFAST_FLEET_JOBS ?? 150);
const limits = { concurrency: 4, workerConcurrency: 3, partition: { concurrency: 2 } };
const longestMs = 5 * 60_000;
const killEveryMs = { least: 200, most: 1_000 };
/** Longer than the time to the first kill, so that even a fast machine is not done before it. */
const restMs = 1_500;

/**
 * Each workflow waits between two steps and gives its slot back meanwhile, so far more workflows are suspended than
 * the limits let run. The limits apply to executions that hold a slot and can commit.
 */
describeBackends('a fleet of workers that are killed at random while workflows are suspended', (backend) => {
  beforeAll(requireBuild);

  it(
    'finishes every workflow, repeats no step after its checkpoint, and never lets more hold a slot than allowed',
    async () => {
      const { gauge, fleet, client, ledger, database } = await openRig(backend);
      await fleet.start(2);
      const inputs = Array.from({ length: jobs }, (_, i) => [i, 'rests']);
      const handles = await client.startAll('job', { queue: 'rests' }, inputs, ([i]) => ({
        ...{ id: `job-${i}`, partition: `p${Number(i) % 3}` },
      }));
      for (const { id } of handles) ledger.append({ kind: 'ack', workflowId: id, by: 'client' });
      let [done, maxAtRest] = [0, 0];
      const killing = fleet.killUntil(() => done > 0.8 * jobs, killEveryMs);
      const counts =
        "select sum(case when status = 'SUCCESS' then 1 else 0 end) as done, sum(case when status = 'PENDING' " +
        'and resting_owner = owner_xid then 1 else 0 end) as rests from workflow_status';
      const look = async (): Promise<number> => {
        const [row] = await gauge.sql(counts);
        maxAtRest = Math.max(maxAtRest, Number(row?.rests));
        done = Number(row?.done);
        return done;
      };
      await expect.poll(look, { timeout: longestMs, interval: 20 }).toBe(jobs);
      await killing;
      await fleet.stop();
      const rows = await openRows(database);
      const { workflows, steps } = await rows.read('job-');
      await rows.close();
      const peaks = await gauge.peaks();
      const found = violations({ workflows, steps, entries: ledger.entries() });
      report(
        `fleet with suspension (${backend.name}): ${jobs} workflows, ${fleet.kills} kills, ` +
          `${found.length} violations, at most ${peaks.queues.rests} of ${limits.concurrency} with a slot, ` +
          `${maxAtRest} suspended; HOLDFAST_FAULT_SEED=${seed}`,
      );
      expect(fleet.kills).toBeGreaterThan(0);
      expect(maxAtRest).toBeGreaterThan(limits.concurrency);
      expect(found).toEqual([]);
      expect(workflows.map((row) => row.status)).toEqual(Array(jobs).fill('SUCCESS'));
      expect(steps).toHaveLength(3 * jobs);
      expect(peaks.queues.rests).toBe(limits.concurrency);
      expect(Math.max(...Object.values(peaks.partitions))).toBe(limits.partition.concurrency);
    },
    longestMs,
  );
});

async function openRig(backend: Backend) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-rests-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  const database = await backend.newDatabase();
  const gauge = await installGauge(database);
  const client = await connect({ name: 'fleet', database, logger: silent });
  await client.queues.register(queue('rests', { ...limits, whileWaiting: 'release' }));
  const random = new SeededRandom(`rests ${backend.name} ${seed}`);
  const fleet = new Fleet(database, ledger, gauge, random, { restMs });
  onTestFinished(async () => {
    await fleet.killAll();
    await client.close();
    await gauge.close();
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  return { gauge, fleet, client, ledger, database };
}
