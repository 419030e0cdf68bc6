import { expect, it } from 'vitest';
import { describeStorage, idsOf } from './contract-support.js';
import { enqueued, inOrder, queueNamed, take, takeTurn, withQueue } from './queue-support.js';

/** Work of two versions and five priorities, each at its own place in the index. */
describeStorage('taking work in the order of its arrival', (store) => {
  withQueue(store);
  const firstCome = true;
  const all = Array.from({ length: 40 }, (_, i) => `w${String(i).padStart(2, '0')}`);

  async function fill(partition?: (i: number) => string): Promise<void> {
    await store.storage.versions.register({ name: 'v1', appName: 'app', now: 1 });
    const rows = all.map((id, i) =>
      enqueued(id, {
        priority: (i * 7) % 5,
        version: ['v1', null, 'v0'][(i * 3) % 5 === 4 ? 2 : i % 2] ?? null,
        ...(partition && { partition: partition(i) }),
      }),
    );
    await store.storage.queues.enqueueAll(rows);
  }
  const ours = all.filter((_, i) => (i * 3) % 5 !== 4);

  it('takes each workflow in order, whatever its priority, of its own version or of none', async () => {
    await fill();
    expect(await inOrder(store.storage, { firstCome })).toEqual(ours);
  });

  it.each([1, 2, 3, 7, 20, 31, 32, 50])('takes the first %i in one claim, in their order', async (n) => {
    await fill();
    const taken = await take(store.storage, n, { firstCome });
    expect(taken.map((row) => row.workflowId).sort()).toEqual(ours.slice(0, n));
  });

  it.each([false, true])('takes the first of each partition (exclusive: %s)', async (exclusive) => {
    await fill((i) => `p${i % 3}`);
    const { lockVersion } = await queueNamed(store.storage);
    const portions = [
      { partition: 'p0', n: 4 },
      { partition: 'p2', n: 2 },
      { partition: 'p1', n: 0 },
    ];
    const first = (p: number, n: number) => ours.filter((id) => Number(id.slice(1)) % 3 === p).slice(0, n);
    const taken = take(store.storage, 0, { firstCome, portions, lockVersion, exclusive });
    expect(await idsOf(taken)).toEqual([...first(0, 4), ...first(2, 2)].sort());
  });

  it('takes work that was tried often in the same order', async () => {
    await fill();
    await store.sql(`update ${store.table('workflow_status')} set recovery_attempts = 60`);
    expect(await inOrder(store.storage, { firstCome })).toEqual([]);
    expect(await inOrder(store.storage, { firstCome, suspects: true })).toEqual(ours);
  });

  it('gives each workflow to one of ten claimers, and leaves none', async () => {
    await fill();
    const claims = Array.from({ length: 10 }, (_, i) => take(store.storage, 6, { firstCome, owner: `claim ${i}` }));
    const taken = (await Promise.all(claims)).flat().map((row) => row.workflowId);
    expect(new Set(taken).size).toBe(taken.length);
    const rest = await inOrder(store.storage, { firstCome });
    expect([...taken, ...rest].sort()).toEqual(ours);
  });

  it('takes nothing from an empty queue, or with an old lock version', async () => {
    expect(await take(store.storage, 5, { firstCome })).toEqual([]);
    await fill();
    const { lockVersion } = await queueNamed(store.storage);
    expect(await takeTurn(store.storage, 5, { firstCome, lockVersion: lockVersion + 1 })).toMatchObject({
      claimed: [],
    });
  });
});
