import { expect, it } from 'vitest';
import { SeededRandom } from '../../src/model/ids.js';
import type { After, OwnedWorkflow, Storage } from '../../src/storage/contract/storage.js';
import { report } from '../faults/child-process.js';
import { describeStorage, finished, first, type Store, takeOver } from './contract-support.js';
import { enqueued, inOrder, queueNamed, register, settings, take, withQueue } from './queue-support.js';

const seed = process.env.HOLDFAST_FAULT_SEED ?? '1';
const owner = 'inc.1';
const owned = (...ids: string[]): (OwnedWorkflow & After)[] =>
  ids.map((workflowId) => ({ workflowId, owner, ...first }));

/** Slots that are given back while their workflow waits: how they count, and until when. */
describeStorage('a suspended workflow', (store) => {
  withQueue(store);
  const table = store.table('workflow_status');
  const begin = async (ids: readonly string[], more: Parameters<typeof take>[2] = {}) => {
    await store.storage.queues.enqueueMany(ids.map((id) => enqueued(id)));
    await take(store.storage, ids.length, { owner, now: 5000, ...more });
  };
  const running = async (): Promise<number | undefined> =>
    (await store.storage.queues.usage({ name: 'q', executorId: 'x', rate: null }))?.usage.running;
  const release = (...ids: string[]) =>
    store.storage.workflows.release({ owned: owned(...ids), queueName: 'x', now: 6000 });
  const rate = { max: 5, since: 7000 };

  it('is marked only if it is PENDING and has the same owner; a second mark does no harm', async () => {
    await begin(['a', 'b', 'ended', 'cancelled']);
    await store.storage.workflows.finishMany([finished('ended', { owner })]);
    await store.storage.workflows.cancel({ workflowIds: ['cancelled'], reason: null, now: 1 });
    await store.storage.queues.enqueueMany([enqueued('waits')]);
    const given = [
      ...owned('a', 'ended', 'cancelled', 'waits', 'nobody'),
      { workflowId: 'b', owner: 'other', ...first },
    ];
    expect(await store.storage.workflows.markSuspended(given)).toEqual(new Set(['a']));
    expect(await store.storage.workflows.markSuspended(owned('a'))).toEqual(new Set(['a']));
    expect(await running()).toBe(1);
  });

  it('holds no slot of its queue or partition, but is still on the queue', async () => {
    await register(store.storage, 'parted', settings({ concurrency: 5 }, { concurrency: 2 }));
    const rows = ['a', 'b', 'c'].map((id) => enqueued(id, { queueName: 'parted', partition: 'p' }));
    await store.storage.queues.enqueueMany(rows);
    await take(store.storage, 0, { owner, queueName: 'parted', portions: [{ partition: 'p', n: 2 }] });
    await store.storage.workflows.markSuspended(owned('a'));
    const look = { writer: { executorId: 'x', appName: 'app' }, version: 'v1', queueName: 'parted', after: '' };
    const runnable = [{ name: 'greet', maxRecoveryAttempts: 100 }];
    const more = { runnable, limit: 9, waitingUpTo: 9, rate: null, suspects: false };
    expect(await store.storage.queues.partitions({ ...look, ...more })).toMatchObject([
      { partition: 'p', running: 1, waiting: 1 },
    ]);
    const seen = await store.storage.queues.usage({ name: 'parted', executorId: 'claimer', rate: null });
    expect(seen?.usage).toMatchObject({ running: 1, elsewhere: 0 });
    expect(await store.storage.queues.listWithCounts('parted')).toMatchObject([
      { waiting: 1, running: 1, suspended: 1 },
    ]);
    expect(await store.storage.queues.unfinished('parted')).toBe(3);
    expect(await store.storage.queues.remove('parted')).toBe(false);
  });

  it('counts again under another owner: the mark is valid only for the owner that made it', async () => {
    await begin(['a', 'b', 'c', 'd']);
    await store.storage.workflows.markSuspended(owned('a', 'b', 'c', 'd'));
    expect(await running()).toBe(0);
    // A program that does not know the mark takes the workflow.
    await store.sql(`update ${table} set owner_xid = 'else' where workflow_uuid = 'a'`);
    await store.sql(`update ${table} set owner_xid = null where workflow_uuid = 'b'`);
    expect(await running()).toBe(2);
    await release('c');
    await take(store.storage, 1, { owner: 'next' });
    expect(await running()).toBe(3);
    expect(await store.storage.queues.listWithCounts('q')).toMatchObject([{ running: 3, suspended: 1 }]);
  });

  it('can write, end, be handed over and be taken over like any other', async () => {
    await begin(['ends', 'dead']);
    await store.storage.workflows.markSuspended(owned('ends', 'dead'));
    expect((await store.storage.workflows.owned(owned('ends', 'dead'))).map((row) => row.workflowId).sort()).toEqual([
      'dead',
      'ends',
    ]);
    expect(await store.storage.workflows.finishMany([finished('ends', { owner })])).toEqual(new Set(['ends']));
    const dead = { version: 'v1', owner: 'heir', now: 1, limit: 10, executorIds: ['claimer'] };
    const runnable = [{ name: 'greet', maxRecoveryAttempts: 100 }];
    await takeOver(store.storage, { ...dead, runnable, writer: { executorId: 'e', appName: 'app' } });
    const [row] = await take(store.storage, 1, { owner: 'heir', now: 9000, rateLimited: true });
    expect(row).toMatchObject({ workflowId: 'dead', attempts: 2, neverRan: store.backend === 'sqlite' });
    expect(await running()).toBe(1);
  });

  it('returns to its place in the queue: after more urgent work, before later work', async () => {
    await store.storage.queues.enqueueMany([enqueued('early', { priority: 3 })]);
    await take(store.storage, 1, { owner });
    await store.storage.workflows.markSuspended(owned('early'));
    await store.storage.queues.enqueueMany([enqueued('later', { priority: 3 }), enqueued('low', { priority: 4 })]);
    await store.storage.queues.enqueueMany([enqueued('urgent', { priority: 1 })]);
    await release('early');
    expect(await inOrder(store.storage)).toEqual(['urgent', 'early', 'later', 'low']);
  });

  it('continues without a new start: no attempt, the same startedAt, and no count for a rate limit', async () => {
    await begin(['rests', 'handed'], { rateLimited: true });
    await store.storage.workflows.markSuspended(owned('rests'));
    await release('rests', 'handed');
    const taken = await take(store.storage, 2, { owner: 'next', now: 8000, rateLimited: true });
    expect(taken.map((row) => row.attempts)).toEqual([1, 1]);
    const started = (await store.storage.workflows.list({})).map(({ workflowId, startedAt }) => [
      workflowId,
      startedAt,
    ]);
    expect(Object.fromEntries(started)).toEqual({ rests: 5000, handed: 8000 });
    const seen = await store.storage.queues.usage({ name: 'q', executorId: 'x', rate });
    expect(seen?.usage).toMatchObject({ running: 2, recentStarts: 1 });
    // This applies only once: the next hand-over is not one of a suspended workflow.
    await store.storage.workflows.release({
      owned: [{ workflowId: 'rests', owner: 'next' }],
      queueName: 'x',
      now: 8500,
    });
    await take(store.storage, 1, { owner: 'third', now: 9000, rateLimited: true });
    expect((await store.storage.workflows.get(['rests']))[0]).toMatchObject({ startedAt: 9000, attempts: 1 });
  });

  it('gets a new start when it is resumed', async () => {
    await begin(['a']);
    await store.storage.workflows.markSuspended(owned('a'));
    await store.storage.workflows.cancel({ workflowIds: ['a'], reason: null, now: 6000 });
    await store.storage.workflows.resume({ workflowIds: ['a'], queueName: 'x', now: 7000 });
    await take(store.storage, 1, { owner: 'next', now: 8000 });
    expect((await store.storage.workflows.get(['a']))[0]).toMatchObject({ startedAt: 8000 });
  });

  it('never makes a queue exceed its limit, however many claim, suspend and return at once', async () => {
    await register(store.storage, 'q', settings({ concurrency: 3 }));
    const race = new Race(store, 120);
    await store.storage.queues.enqueueMany(Array.from({ length: 120 }, (_, i) => enqueued(`w${i}`)));
    const storages = [store.storage, await store.another(), await store.another()];
    await Promise.all(storages.map((storage, i) => race.claimer(storage, `claimer ${i}`)));
    report(`slots given back (${store.backend}): ${race.rests} rests, ${race.readings} readings, peak ${race.peak}`);
    expect(race.peak).toBe(3);
    expect(race.rests).toBeGreaterThan(50);
    expect(await store.storage.queues.listWithCounts('q')).toMatchObject([{ waiting: 0, running: 0, suspended: 0 }]);
  });
});

/** Claimers that finish some of their workflows, suspend others and release these a little later. */
class Race {
  peak = 0;
  readings = 0;
  rests = 0;
  private ended = 0;
  private readonly random = new SeededRandom(`resting ${seed}`);

  constructor(
    private readonly store: Store,
    private readonly total: number,
  ) {}

  async claimer(storage: Storage, name: string): Promise<void> {
    const held: (OwnedWorkflow & After)[] = [];
    const resting: (OwnedWorkflow & After)[] = [];
    const { workflows } = storage;
    for (let turn = 0; this.ended < this.total && turn < 5_000; turn++) {
      const mine = `${name}.${turn}`;
      held.push(...(await this.claim(storage, mine)).map((workflowId) => ({ workflowId, owner: mine, ...first })));
      await this.read();
      const some = held.splice(0, Math.ceil(this.random.number() * held.length));
      const ending = some.filter(() => this.random.number() < 0.5);
      const leaving = some.filter((each) => !ending.includes(each));
      const ended = await workflows.finishMany(ending.map((each) => finished(each.workflowId, each)));
      const rested = await workflows.markSuspended(leaving);
      this.ended += ended.size;
      this.rests += rested.size;
      resting.push(...leaving);
      const back = resting.splice(0, Math.ceil(this.random.number() * resting.length));
      await workflows.release({ owned: back, queueName: 'x', now: turn });
      await this.read();
    }
  }

  private async claim(storage: Storage, owner: string): Promise<string[]> {
    const seen = await storage.queues.usage({ name: 'q', executorId: 'x', rate: null });
    const { lockVersion, settings: stored } = seen?.queue ?? (await queueNamed(storage));
    const free = (stored.limits.concurrency ?? 0) - (seen?.usage.running ?? 0);
    if (free <= 0) return [];
    return (await take(storage, free, { lockVersion, exclusive: true, owner })).map((row) => row.workflowId);
  }

  /** Counts with its own SQL the workflows that can commit and are not suspended. */
  private async read(): Promise<void> {
    const [row] = await this.store.sql(
      `select count(*) as n from ${this.store.table('workflow_status')} where status = 'PENDING' ` +
        "and coalesce(resting_owner, '') <> coalesce(owner_xid, '-')",
    );
    this.readings++;
    this.peak = Math.max(this.peak, Number(row?.n));
  }
}
