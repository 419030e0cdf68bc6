import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { sqliteFile } from '../../../../test-support/sqlite.mjs';
import { type Client, connect, queue } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { report, requireBuild } from './child-process.js';
import { outcomesStay } from './invariants.js';
import { Ledger } from './ledger.js';
import { isNobodyWritingTo, Worker } from './queue-fleet.js';
import { type Gauge, installGauge } from './queue-gauge.js';
import { observe, openRows, type RowReader } from './rows.js';

const seed = process.env.HOLDFAST_FAULT_SEED ?? String(Date.now() % 1_000_000);
const concurrency = 4;
const rounds = 20;
const executors = ['first', 'second', 'third'];

/**
 * A worker is stopped in the middle of its work and declared dead, and another worker takes its work over. When the
 * stopped worker continues, its step bodies may still have side effects, but it can commit nothing and does not count
 * against the limit. Executions that can commit never exceed the limit.
 */
describeBackends('live workers that were declared dead', (backend) => {
  beforeAll(requireBuild);

  it(
    'never let more executions commit than the limit allows, and change nothing that others have done',
    async () => {
      const rig = await openRig(backend);
      const random = new SeededRandom(`false death ${backend.name} ${seed}`);
      let enqueued = 0;
      let taken = 0;
      for (let round = 0; round < rounds; round++) {
        await enqueueJobs(rig.client, enqueued, 40);
        enqueued += 40;
        taken += await rig.falseDeath(random);
      }
      await rig.untilDone(enqueued);
      for (const worker of rig.workers.values()) await worker.stop();
      const { workflows, steps } = await rig.rows.read('job-');
      const peaks = await rig.gauge.peaks();
      report(
        `false death (${backend.name}): ${rounds} rounds, ${taken} workflows taken over from live workers, ` +
          `${enqueued} in all, PENDING at most ${peaks.queues.limited} of ${concurrency}; HOLDFAST_FAULT_SEED=${seed}`,
      );
      expect(taken).toBeGreaterThan(rounds / 2);
      expect(peaks.queues.limited).toBe(concurrency);
      expect(workflows.map((row) => row.status)).toEqual(Array(enqueued).fill('SUCCESS'));
      expect(steps).toHaveLength(2 * enqueued);
      expect(outcomesStay({ workflows, steps, entries: rig.ledger.entries() })).toEqual([]);
    },
    5 * 60_000,
  );
});

class Rig {
  readonly workers = new Map<string, Worker>();

  constructor(
    readonly client: Client,
    readonly ledger: Ledger,
    readonly gauge: Gauge,
    readonly rows: RowReader,
    /** The SQLite databases that the workers write to. */
    private readonly files: readonly string[],
  ) {}

  /** Returns the number of workflows that were taken over. */
  async falseDeath(random: SeededRandom): Promise<number> {
    const [victim = '', heir = ''] = shuffled(executors, random);
    const { workers } = this;
    await this.untilRunning(victim);
    await workers.get(victim)?.pause();
    // On SQLite a process that is stopped in the middle of a transaction blocks all other writers until it continues.
    while (!this.files.every(isNobodyWritingTo)) {
      workers.get(victim)?.goOn();
      await delay(1);
      await workers.get(victim)?.pause();
    }
    const taken = (await workers.get(heir)?.recover(victim)) ?? [];
    // The other workers continue with the queue, and with the work they have taken over, before the stopped worker
    // continues.
    await this.untilEnded(taken);
    for (const id of taken) observe(this.ledger, await this.rows.read(id));
    workers.get(victim)?.goOn();
    return taken.length;
  }

  async untilDone(total: number): Promise<void> {
    await this.until(`select 1 where (select count(*) from workflow_status where status = 'SUCCESS') = ${total}`);
  }

  private async untilRunning(executorId: string): Promise<void> {
    const done = `not exists (select 1 from workflow_status where status in ('ENQUEUED', 'PENDING'))`;
    await this.until(`select 1 where ${done} or exists (select 1 from workflow_status where status = 'PENDING'
      and executor_id = '${executorId}')`);
  }

  private async untilEnded(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const list = ids.map((id) => `'${id}'`).join(', ');
    await this.until(`select 1 where not exists (select 1 from workflow_status where status <> 'SUCCESS'
      and workflow_uuid in (${list}))`);
  }

  private async until(sql: string): Promise<void> {
    await expect.poll(async () => (await this.gauge.sql(sql)).length, { timeout: 60_000, interval: 2 }).toBe(1);
  }
}

async function openRig(backend: Backend): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-ghosts-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  const database = await backend.newDatabase();
  const gauge = await installGauge(database);
  const rows = await openRows(database);
  const client = await connect({ name: 'fleet', database, logger: silent });
  await client.queues.register(queue('limited', { concurrency }));
  const files = [ledger.path, ...(backend.name === 'sqlite' ? [sqliteFile(database)] : [])];
  const rig = new Rig(client, ledger, gauge, rows, files);
  onTestFinished(async () => {
    for (const worker of rig.workers.values()) await worker.kill();
    await client.close();
    await rows.close();
    await gauge.close();
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  for (const executorId of executors) {
    rig.workers.set(executorId, await Worker.start({ ledgerPath: ledger.path, database, stepMs: 5, executorId }));
  }
  return rig;
}

async function enqueueJobs(client: Client, first: number, count: number): Promise<void> {
  const inputs = Array.from({ length: count }, (_, i) => [first + i, 'limited']);
  await client.startAll('job', { queue: 'limited' }, inputs, (_, i) => ({ id: `job-${first + i}` }));
}

function shuffled(values: readonly string[], random: SeededRandom): string[] {
  return values
    .map((value) => ({ value, at: random.number() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
