import { expect, it } from 'vitest';
import {
  dequeue,
  describeStorage,
  idsOf,
  newClaim,
  newWorkflow,
  start,
  statuses,
  takeOver,
  writer,
} from './contract-support.js';

describeStorage('a claim of work that waits on a queue', (store) => {
  const enqueue = async (queueName: string, ...ids: readonly string[]): Promise<void> => {
    await start(store, ...ids);
    const owned = ids.map((id) => ({ workflowId: id, owner: `owner of ${id}` }));
    await store.storage.workflows.release({ owned, queueName, now: 3000 });
  };
  const claim = (more: Partial<Parameters<typeof dequeue>[1]> = {}, storage = store.storage) =>
    dequeue(storage, { ...newClaim(), queueName: 'q', ...more });

  it('makes the workflow PENDING under a new owner token, started now, with one more attempt', async () => {
    await enqueue('q', 'a');
    const taken = { workflowId: 'a', status: 'PENDING', owner: 'fresh', attempts: 1 };
    expect(await claim({ owner: 'fresh' })).toMatchObject([taken]);
    const [stored] = await store.storage.workflows.get(['a']);
    expect(stored).toMatchObject({ ...taken, executorId: 'claimer', startedAt: 5000 });
    expect(await claim()).toEqual([]);
  });

  it('sets the deadline at the first dequeue, and never again', async () => {
    const { workflows } = store.storage;
    await workflows.insertMany(writer, [newWorkflow('a', { timeoutMs: 100 })]);
    const release = (owner: string) =>
      workflows.release({ owned: [{ workflowId: 'a', owner }], queueName: 'q', now: 3000 });
    await release('owner of a');
    expect(await claim({ now: 5000 })).toMatchObject([{ deadlineAt: 5100 }]);
    await release('claim');
    expect(await claim({ now: 9000 })).toMatchObject([{ deadlineAt: 5100 }]);
  });

  it('takes only ENQUEUED workflows of this queue, version and app that this process can run', async () => {
    await enqueue('other queue', 'a');
    await enqueue('q', 'b', 'c', 'd', 'e');
    const table = store.table('workflow_status');
    await store.sql(`update ${table} set application_version = 'v0' where workflow_uuid = 'b'`);
    await store.sql(`update ${table} set application_name = 'other' where workflow_uuid = 'c'`);
    await store.sql(`update ${table} set name = 'unknown' where workflow_uuid = 'd'`);
    expect(await idsOf(claim())).toEqual(['e']);
    expect(await statuses(store)).toMatchObject({ a: 'ENQUEUED', b: 'ENQUEUED', c: 'ENQUEUED', d: 'ENQUEUED' });
  });

  it('takes the oldest first, no more than the limit', async () => {
    await enqueue('q', ...Array.from({ length: 20 }, (_, i) => `w${String(i).padStart(2, '0')}`));
    expect(await idsOf(claim({ limit: 3 }))).toEqual(['w00', 'w01', 'w02']);
    expect(await idsOf(claim({ limit: 2 }))).toEqual(['w03', 'w04']);
  });

  it('gives up a workflow that has used all its attempts', async () => {
    await enqueue('q', 'a');
    const once = [{ name: 'greet', maxRecoveryAttempts: 1 }];
    await claim({ runnable: once });
    const orphans = { ...newClaim({ runnable: once }), executorIds: ['claimer'] };
    await takeOver(store.storage, orphans);
    expect(await claim({ runnable: once })).toMatchObject([{ status: 'PENDING', attempts: 2 }]);
    const patient = [{ name: 'greet', maxRecoveryAttempts: 9 }];
    await takeOver(store.storage, { ...orphans, runnable: patient });
    const dead = { status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', attempts: 3 };
    expect(await claim({ runnable: once, now: 6000 })).toMatchObject([dead]);
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ ...dead, completedAt: 6000 }]);
  });

  it('gives each workflow to one of ten claimers', async () => {
    const ids = Array.from({ length: 100 }, (_, i) => `w${i}`);
    await enqueue('q', ...ids);
    const other = await store.another();
    const claimer = (_: unknown, i: number) => claim({ owner: `o${i}`, limit: 10 }, i % 2 ? other : store.storage);
    const claimed = (await Promise.all(Array.from({ length: 10 }, claimer))).flat();
    expect(new Set(claimed.map((row) => row.workflowId)).size).toBe(claimed.length);
    const rest = await claim();
    expect([...claimed, ...rest].map((row) => row.workflowId).sort()).toEqual([...ids].sort());
  });
});
