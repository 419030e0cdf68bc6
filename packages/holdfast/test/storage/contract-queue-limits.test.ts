import { expect, it } from 'vitest';
import { SeededRandom } from '../../src/model/ids.js';
import type { Storage } from '../../src/storage/contract/storage.js';
import { report } from '../faults/child-process.js';
import { describeStorage, finished, type Store } from './contract-support.js';
import { enqueued, queueNamed, register, settings, take, withQueue } from './queue-support.js';

const seed = process.env.HOLDFAST_FAULT_SEED ?? '1';

/**
 * Many claimers at once, from three processes in the view of the database. Each reading of the running workflows is a
 * snapshot of the database: if a limit is exceeded for a moment, one of thousands of readings is likely to see it.
 */
describeStorage('limits of a fleet', (store) => {
  withQueue(store);

  it.each([2, 10])('hold for %i claimers at once', async (count) => {
    await register(store.storage, 'q', settings({ concurrency: 5 }));
    const race = await newRace(store, 400);
    await Promise.all(Array.from({ length: count }, (_, i) => race.claimer(i)));
    race.check(`concurrency 5, ${count} claimers`);
    expect(race.peak).toBeLessThanOrEqual(5);
    expect(race.claimed).toHaveLength(400);
    expect(new Set(race.claimed).size).toBe(400);
  });

  it('hold in each partition, together with the limit of the queue', async () => {
    await register(store.storage, 'q', settings({ concurrency: 6 }, { concurrency: 2 }));
    const race = await newRace(store, 300, 4);
    await Promise.all(Array.from({ length: 6 }, (_, i) => race.claimer(i)));
    race.check('concurrency 6, per partition 2, 6 claimers');
    expect(race.peak).toBeLessThanOrEqual(6);
    expect(race.partitionPeak).toBeLessThanOrEqual(2);
    expect(new Set(race.claimed).size).toBe(300);
  });

  it('hold while they are changed: a claim planned under other settings takes nothing', async () => {
    await register(store.storage, 'q', settings({ concurrency: 6 }));
    const race = await newRace(store, 300);
    let done = false;
    const claimers = Promise.all(Array.from({ length: 6 }, (_, i) => race.claimer(i))).then(() => {
      done = true;
    });
    let edits = 0;
    const other = await store.another();
    for (let round = 0; !done; round++) {
      const queue = await queueNamed(other);
      const limit = settings({ concurrency: 1 + (round % 6) });
      if (await other.queues.change({ queue, settings: limit, paused: false, now: round })) edits++;
      // More workflows may run than a limit that was just lowered, but no claim may add one.
      await race.read(other);
    }
    await claimers;
    race.check(`concurrency 1 to 6, ${edits} edits`);
    expect(edits).toBeGreaterThan(0);
    expect(race.peak).toBeLessThanOrEqual(6);
    expect(race.bold).toEqual([]);
  });

  it('hold with a pause: no claim takes work after the pause resolves', async () => {
    for (let round = 0; round < 20; round++) await pauseUnderClaims(store, round);
  });

  it('hold with a removal: no concurrent enqueue leaves work on a removed queue', async () => {
    const other = await store.another();
    const seen = { removed: 0, kept: 0 };
    for (let round = 0; round < 60; round++) {
      await register(store.storage, 'q');
      const enqueue = () => store.storage.queues.enqueueMany([enqueued(`w${round}`)]);
      const remove = () => other.queues.remove('q');
      const [first, second] = round % 2 ? [enqueue, remove] : [remove, enqueue];
      const begun = first();
      // The first operation gets a growing head start. Without it, the same side always wins on some machines.
      for (let i = 0; i < Math.floor(round / 2) % 6; i++) await store.sql('select 1');
      if (round >= 58) await begun;
      await Promise.all([begun, second()]);
      const [row] = await store.storage.workflows.get([`w${round}`]);
      const queue = await queueNamed(store.storage);
      expect(row === undefined || queue !== undefined).toBe(true);
      seen[queue ? 'kept' : 'removed']++;
      if (row) await store.storage.workflows.cancel({ workflowIds: [row.workflowId], reason: null, now: 1 });
    }
    expect(Math.min(seen.removed, seen.kept)).toBeGreaterThan(0);
  });
});

async function pauseUnderClaims(store: Store, round: number): Promise<void> {
  await store.sql(`delete from ${store.table('workflow_status')}`);
  await store.sql(`delete from ${store.table('queues')}`);
  await register(store.storage, 'q');
  await store.storage.queues.enqueueAll(Array.from({ length: 100 }, (_, i) => enqueued(`${round}-${i}`)));
  const storages = [store.storage, await sibling(store)];
  const { lockVersion } = await queueNamed(store.storage);
  const claims = Array.from({ length: 30 }, (_, i) => take(storages[i % 2] as Storage, 1, { lockVersion }));
  // The pause comes in the middle of the claims, in each round at another place.
  for (let i = 0; i < round; i++) await claims[i];
  const queue = await queueNamed(store.storage);
  await storages[round % 2]?.queues.change({ queue, settings: queue.settings, paused: true, now: 2000 });
  const running = () =>
    store.sql(`select count(*) as n from ${store.table('workflow_status')} where status = 'PENDING'`);
  const before = await running();
  await Promise.all(claims);
  expect(await running()).toEqual(before);
}

const siblings = new WeakMap<Store, Storage>();

async function sibling(store: Store): Promise<Storage> {
  const known = siblings.get(store) ?? (await store.another());
  siblings.set(store, known);
  return known;
}

/** Claimers that plan like a queue worker, and finish their workflows after a while. */
class Race {
  peak = 0;
  partitionPeak = 0;
  readonly claimed: string[] = [];
  /** Claims that exceeded the limit by which they were planned. */
  readonly bold: string[] = [];
  private readings = 0;
  private lost = 0;
  private readonly random = new SeededRandom(`queue limits ${seed}`);

  constructor(
    private readonly storages: readonly Storage[],
    private readonly total: number,
  ) {}

  async claimer(i: number): Promise<void> {
    const storage = this.storages[i % this.storages.length] as Storage;
    const held: string[] = [];
    const owner = `claimer ${i}`;
    while (this.claimed.length < this.total || held.length > 0) {
      const taken = await this.claim(storage, owner);
      held.push(...taken);
      this.claimed.push(...taken);
      const some = Math.floor(this.random.number() * 4);
      const ending = held.splice(0, this.claimed.length < this.total ? some : held.length);
      await storage.workflows.finishMany(ending.map((id) => finished(id, { owner })));
    }
  }

  /** Takes a snapshot of the running workflows. */
  async read(storage: Storage) {
    const seen = await storage.queues.usage({ name: 'q', executorId: 'claimer', rate: null });
    if (!seen) throw new Error('The queue is gone.');
    this.readings++;
    this.peak = Math.max(this.peak, seen.usage.running);
    return seen;
  }

  check(what: string): void {
    report(
      `${what}: ${this.claimed.length} claimed, ${this.readings} readings, ${this.lost} lost turns, peak ${this.peak}`,
    );
    expect(this.lost).toBeGreaterThan(0);
  }

  private async claim(storage: Storage, owner: string): Promise<string[]> {
    const { queue, usage, waiting } = await this.read(storage);
    const { limits, partition } = queue.settings;
    const free = (limits.concurrency ?? 0) - usage.running;
    if (free <= 0 || !waiting) return [];
    const common = { lockVersion: queue.lockVersion, exclusive: true, owner };
    const portions = partition ? await this.portions(storage, free, partition.concurrency ?? 0) : undefined;
    if (portions?.length === 0) return [];
    const taken = await take(storage, free, { ...common, ...(portions && { portions }) });
    if (taken.length > free) this.bold.push(`${owner} took ${taken.length} of ${free}`);
    if (taken.length === 0) this.lost++;
    return taken.map((row) => row.workflowId);
  }

  private async portions(storage: Storage, free: number, most: number) {
    const found = await storage.queues.partitions({
      ...{ writer: { executorId: 'claimer', appName: 'app' }, version: 'v1', queueName: 'q', after: '', limit: 10 },
      ...{ runnable: [{ name: 'greet', maxRecoveryAttempts: 100 }], waitingUpTo: free, rate: null, suspects: false },
    });
    this.partitionPeak = Math.max(this.partitionPeak, ...found.map((each) => each.running));
    let left = free;
    return found.flatMap(({ partition, running }) => {
      const n = Math.min(left, most - running);
      left -= Math.max(0, n);
      return n > 0 ? [{ partition, n }] : [];
    });
  }
}

async function newRace(store: Store, total: number, partitions?: number): Promise<Race> {
  const rows = Array.from({ length: total }, (_, i) =>
    enqueued(`w${i}`, partitions ? { partition: `p${i % partitions}` } : {}),
  );
  await store.storage.queues.enqueueAll(rows);
  return new Race([store.storage, await store.another(), await store.another()], total);
}
