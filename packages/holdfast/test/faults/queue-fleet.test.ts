import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { type Client, connect, queue, type StartOptions } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { type Backend, describeDrivers, silent } from '../support/backends.js';
import { report, requireBuild } from './child-process.js';
import { violations } from './invariants.js';
import { Ledger } from './ledger.js';
import { Fleet } from './queue-fleet.js';
import { busiestStretch, type Gauge, installGauge, overlaps } from './queue-gauge.js';
import { openRows } from './rows.js';

const seed = process.env.HOLDFAST_FAULT_SEED ?? String(Date.now() % 1_000_000);
/** HOLDFAST_FLEET_JOBS=10000 for the full test, on both databases. */
const jobs = (backend: Backend['name']): number =>
  Number(process.env.HOLDFAST_FLEET_JOBS ?? (backend === 'postgres' ? 1_500 : 800));
const workers = 3;
const minutes = 60_000;

const limits = { concurrency: 8, workerConcurrency: 4 };
const rate = { max: 40, perMs: 250 };
const tenants = 20;
const limited = queue('limited', limits);
const parted = queue('parted', { partition: { concurrency: 1 } });
const rated = queue('rated', { rateLimit: { max: rate.max, per: rate.perMs } });

describeDrivers('a fleet of workers that are killed at random', (backend) => {
  beforeAll(requireBuild);

  it(
    'finishes every workflow, repeats no step after its checkpoint, and never exceeds the limits',
    async () => {
      const rig = await openRig(backend);
      const total = jobs(backend.name);
      const started = performance.now();
      await rig.fleet.start(workers);
      let done = 0;
      const killing = rig.fleet.killUntil(() => done > 0.9 * total, { least: 100, most: 800 });
      await enqueueAll(rig.client, rig.ledger, total, rig.random);
      while (done < total) {
        const [row] = await rig.gauge.sql("select count(*) as n from workflow_status where status = 'SUCCESS'");
        done = Number(row?.n);
        await new Promise((resolve) => setTimeout(resolve, 50));
        const stuck = performance.now() - started > 10 * minutes;
        if (stuck) throw new Error(`${done} of ${total} have ended. HOLDFAST_FAULT_SEED=${seed}`);
      }
      await killing;
      await rig.fleet.stop();
      const seconds = (performance.now() - started) / 1000;
      await checkFleet(backend, rig, total, seconds);
    },
    12 * minutes,
  );
});

interface Rig {
  readonly database: string;
  readonly ledger: Ledger;
  readonly gauge: Gauge;
  readonly fleet: Fleet;
  readonly client: Client;
  readonly random: SeededRandom;
}

async function openRig(backend: Backend): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fleet-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  const database = await backend.newDatabase();
  const gauge = await installGauge(database);
  const client = await connect({ name: 'fleet', database, logger: silent });
  for (const each of [limited, parted, rated]) await client.queues.register(each);
  // Jobs and kills each have their own random sequence, because they draw in an order that depends on timing.
  const random = new SeededRandom(`fleet ${backend.name} ${seed}`);
  const fleet = new Fleet(database, ledger, gauge, new SeededRandom(`kills ${backend.name} ${seed}`));
  onTestFinished(async () => {
    await fleet.killAll();
    await client.close();
    await gauge.close();
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  return { database, ledger, gauge, fleet, client, random };
}

/**
 * Chooses the queue of a job: most go to the queue with a fleet-wide limit, some to one of 20 tenants, some to the
 * rate limit.
 */
function placeOf(i: number, random: SeededRandom): StartOptions {
  const delay = random.number() < 0.05 ? { delay: Math.floor(random.number() * 2_000) } : {};
  const kind = random.number();
  if (kind < 0.6) return { queue: limited, priority: Math.floor(random.number() * 3), ...delay };
  if (kind < 0.9) return { queue: parted, partition: `tenant ${Math.floor(random.number() * tenants)}`, ...delay };
  return { queue: rated, dedupId: `job ${i}`, ...delay };
}

async function enqueueAll(client: Client, ledger: Ledger, total: number, random: SeededRandom): Promise<void> {
  const batch = 500;
  for (let first = 0; first < total; first += batch) {
    const places = Array.from({ length: Math.min(batch, total - first) }, (_, i) => placeOf(first + i, random));
    const inputs = places.map(({ queue: on, partition }, i) => [first + i, `${nameOf(on)} ${partition ?? ''}`.trim()]);
    const handles = await client.startAll('job', {}, inputs, (_, i) => ({ ...places[i], id: `job-${first + i}` }));
    for (const { id } of handles) ledger.append({ kind: 'ack', workflowId: id, by: 'client' });
  }
}

function nameOf(given: StartOptions['queue']): string {
  return typeof given === 'string' ? given : (given?.name ?? '');
}

async function checkFleet(backend: Backend, rig: Rig, total: number, seconds: number): Promise<void> {
  const rows = await openRows(rig.database);
  const { workflows, steps } = await rows.read('job-');
  await rows.close();
  const entries = rig.ledger.entries();
  const bodies = overlaps(entries, (detail) => [detail, detail.split(' ')[0] as string]);
  const peaks = await rig.gauge.peaks();
  const inPartition = Math.max(...Object.values(peaks.partitions));
  const starts = workflows.filter((row) => row.queue_name === 'rated').map((row) => Number(row.started_at_epoch_ms));
  const found = violations({ workflows, steps, entries });
  const again = workflows.filter((row) => Number(row.recovery_attempts) > 1).length;
  report(
    `fleet (${backend.name}): ${total} workflows, ${steps.length} steps, ${rig.fleet.kills} kills, ${again} run again, ` +
      `${found.length} violations in ${seconds.toFixed(1)} s; PENDING at most ${peaks.queues.limited} of ` +
      `${limits.concurrency}, in a partition ${inPartition} of 1; bodies at most ${bodies.places.limited}, in one ` +
      `process ${most(bodies.processes, 'limited in')} of ${limits.workerConcurrency}; starts per ${rate.perMs} ms ` +
      `${busiestStretch(starts, rate.perMs)} of ${rate.max}; HOLDFAST_FAULT_SEED=${seed}`,
  );
  // A run in which no fault landed, or no work was taken over, proves nothing.
  expect(rig.fleet.kills).toBeGreaterThan(0);
  expect(again).toBeGreaterThan(0);
  expect(found).toEqual([]);
  expect(workflows.map((row) => row.status)).toEqual(Array(total).fill('SUCCESS'));
  expect(steps).toHaveLength(2 * total);
  expect(peaks.queues.limited).toBe(limits.concurrency);
  expect(inPartition).toBe(1);
  expect(bodies.places.limited).toBeLessThanOrEqual(limits.concurrency);
  expect(most(bodies.places, 'parted tenant')).toBe(1);
  expect(most(bodies.processes, 'limited in')).toBeLessThanOrEqual(limits.workerConcurrency);
  expect(busiestStretch(starts, rate.perMs)).toBeLessThanOrEqual(rate.max);
}

function most(peaks: Record<string, number>, prefix: string): number {
  return Math.max(...Object.entries(peaks).map(([key, peak]) => (key.startsWith(prefix) ? peak : 0)));
}
