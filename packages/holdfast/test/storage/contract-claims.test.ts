import { expect, it } from 'vitest';
import { plainKey } from '../../src/model/workflow-key.js';
import type { Storage, WorkflowRecord } from '../../src/storage/storage.js';
import {
  dequeue,
  describeStorage,
  finished,
  idsOf,
  newClaim,
  newWorkflow,
  start,
  statuses,
  writer,
} from './contract-support.js';

const noneOfOurs = 'nobody.%';

describeStorage('claims of work that an executor left PENDING', (store) => {
  const claim = (more: Partial<Parameters<Storage['workflows']['claimPending']>[0]> = {}, storage = store.storage) =>
    storage.workflows.claimPending({ ...newClaim(), executorIds: ['here'], exceptOwners: noneOfOurs, ...more });

  it('makes it the claimer’s own under a fresh owner token, one attempt more', async () => {
    await start(store, 'a');
    const [claimed] = await claim({ owner: 'fresh' });
    expect(claimed).toMatchObject({
      workflowId: 'a',
      status: 'PENDING',
      owner: 'fresh',
      executorId: 'claimer',
      attempts: 2,
      updatedAt: 5000,
      createdAt: 1000,
      completedAt: null,
      inputs: '[]',
    });
    expect(await store.storage.workflows.get(['a'])).toEqual([claimed]);
  });

  it('fences the former owner from that moment', async () => {
    await start(store, 'a');
    await claim({ owner: 'fresh' });
    const { workflows } = store.storage;
    expect(await workflows.finishMany([finished('a')])).toEqual(new Set());
    expect(await workflows.finishMany([finished('a', { owner: 'fresh' })])).toEqual(new Set(['a']));
  });

  it('takes only PENDING work of the given executors', async () => {
    await start(store, 'a', 'ended');
    await store.storage.workflows.finishMany([finished('ended')]);
    await store.storage.workflows.insertMany({ ...writer, executorId: 'alive' }, [newWorkflow('b')]);
    await store.storage.workflows.insertMany({ ...writer, executorId: 'dead' }, [newWorkflow('c')]);
    expect(await idsOf(claim({ executorIds: ['here', 'dead'] }))).toEqual(['a', 'c']);
    expect(await claim({ executorIds: [] })).toEqual([]);
    expect(await store.storage.workflows.get(['b'])).toMatchObject([{ attempts: 1, executorId: 'alive' }]);
  });

  it('leaves alone what the claimer itself is running', async () => {
    const rows = [newWorkflow('mine', { owner: 'f00d.1' }), newWorkflow('left behind', { owner: 'dead.1' })];
    await store.storage.workflows.insertMany(writer, rows);
    expect(await idsOf(claim({ exceptOwners: 'f00d.%' }))).toEqual(['left behind']);
  });

  it('leaves alone what this process cannot run', async () => {
    await store.storage.workflows.insertMany(writer, [newWorkflow('a', { name: 'unknown' }), newWorkflow('b')]);
    expect(await idsOf(claim())).toEqual(['b']);
    expect(await claim({ runnable: [] })).toEqual([]);
    const runnable = [{ name: `it's {"quoted"}`, maxRecoveryAttempts: 1 }];
    await store.storage.workflows.insertMany(writer, [newWorkflow('c', { name: `it's {"quoted"}` })]);
    expect(await idsOf(claim({ runnable }))).toEqual(['c']);
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ attempts: 1 }]);
  });

  it('leaves alone other versions, other apps and classes that it does not know', async () => {
    await store.storage.workflows.insertMany(writer, [newWorkflow('a', { version: 'v0' }), newWorkflow('class')]);
    await store.storage.workflows.insertMany({ ...writer, appName: 'other' }, [newWorkflow('b')]);
    await start(store, 'of no app');
    const table = store.table('workflow_status');
    await store.sql(`update ${table} set application_name = null where workflow_uuid = 'of no app'`);
    await store.sql(`update ${table} set class_name = 'Greeter' where workflow_uuid = 'class'`);
    expect(await idsOf(claim())).toEqual(['of no app']);
  });

  it('gives a workflow up when it has had its attempts', async () => {
    await start(store, 'a', 'b');
    const once = [{ name: 'greet', maxRecoveryAttempts: 1 }];
    expect(await claim({ runnable: once })).toMatchObject([{ status: 'PENDING' }, { status: 'PENDING' }]);
    await store.storage.workflows.finishMany([finished('b', { owner: 'claim' })]);
    const [dead] = await claim({ runnable: once, executorIds: ['claimer'], now: 6000 });
    expect(dead).toMatchObject({ status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', attempts: 3, completedAt: 6000 });
    expect(await claim({ runnable: once, executorIds: ['claimer'] })).toEqual([]);
    expect(await store.storage.workflows.finishMany([finished('a', { owner: 'claim' })])).toEqual(new Set());
  });

  it('never tries again with a limit of no attempts', async () => {
    await start(store, 'a');
    const never = [{ name: 'greet', maxRecoveryAttempts: 0 }];
    expect(await claim({ runnable: never })).toMatchObject([{ status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' }]);
  });

  it('puts work of a queue back on that queue', async () => {
    const { workflows } = store.storage;
    await start(store, 'a');
    await workflows.release({ owned: [{ workflowId: 'a', owner: 'owner of a' }], queueName: 'q', now: 3000 });
    await dequeue(store.storage, { ...newClaim({ owner: 'dying' }), queueName: 'q' });
    const [returned] = await claim({ executorIds: ['claimer'] });
    expect(returned).toMatchObject({ status: 'ENQUEUED', queueName: 'q', owner: null, executorId: null, attempts: 1 });
    expect(await dequeue(store.storage, { ...newClaim(), queueName: 'q' })).toMatchObject([{ attempts: 2 }]);
  });

  it('takes the oldest first, no more than the limit', async () => {
    await start(store, ...Array.from({ length: 30 }, (_, i) => `w${String(i).padStart(2, '0')}`));
    expect(await idsOf(claim({ limit: 3 }))).toEqual(['w00', 'w01', 'w02']);
    expect(await idsOf(claim({ limit: 2 }))).toEqual(['w03', 'w04']);
    expect(await claim({ limit: 100 })).toHaveLength(25);
    expect(await claim({ limit: 100 })).toEqual([]);
  });

  if (store.backend === 'postgres') {
    it('takes no more than the limit, whatever the planner makes of it', async () => {
      await start(store, ...Array.from({ length: 30 }, (_, i) => `w${i}`));
      for (const way of ['hashjoin', 'mergejoin', 'hashagg', 'sort', 'material', 'memoize']) {
        await store.sql(`alter database ${new URL(store.url).pathname.slice(1)} set enable_${way} = off`);
      }
      const other = await store.another();
      expect(await claim({ limit: 3 }, other)).toHaveLength(3);
      const owned = (await store.storage.workflows.list({})).map(({ workflowId, owner }) => ({
        workflowId,
        owner: owner ?? '',
      }));
      await store.storage.workflows.release({ owned, queueName: 'q', now: 3000 });
      expect(await dequeue(other, { ...newClaim({ limit: 4 }), queueName: 'q' })).toHaveLength(4);
    });
  }

  it('gives each workflow to one of two processes', async () => {
    const ids = Array.from({ length: 60 }, (_, i) => `w${i}`);
    await start(store, ...ids);
    const other = await store.another();
    const both = await Promise.all([
      claim({ owner: 'x', writer: { ...writer, executorId: 'x' } }),
      claim({ owner: 'y', writer: { ...writer, executorId: 'y' } }, other),
    ]);
    expect(
      both
        .flat()
        .map((row) => row.workflowId)
        .sort(),
    ).toEqual([...ids].sort());
  });

  it('gives each workflow to one of ten claimers who take pages at once', async () => {
    const ids = Array.from({ length: 200 }, (_, i) => `w${i}`);
    await start(store, ...ids);
    const other = await store.another();
    const claimer = async (_: unknown, i: number): Promise<WorkflowRecord[]> => {
      const mine: WorkflowRecord[] = [];
      for (;;) {
        const params = { owner: `o${i}`, writer: { ...writer, executorId: `e${i}` }, limit: 7 };
        const page = await claim(params, i % 2 ? other : store.storage);
        if (page.length === 0) return mine;
        mine.push(...page);
      }
    };
    const claimed = (await Promise.all(Array.from({ length: 10 }, claimer))).flat();
    expect(claimed.map((row) => row.workflowId).sort()).toEqual([...ids].sort());
    expect(claimed.every((row) => row.attempts === 2)).toBe(true);
    const stored = await store.storage.workflows.get(ids);
    expect(new Set(stored.map((row) => `${row.workflowId} ${row.owner}`))).toEqual(
      new Set(claimed.map((row) => `${row.workflowId} ${row.owner}`)),
    );
  });

  it('names the work and the executors that a recovery would be about', async () => {
    const { workflows } = store.storage;
    await workflows.insertMany(writer, [newWorkflow('b'), newWorkflow('a'), newWorkflow('c', { name: 'charge' })]);
    await workflows.insertMany({ executorId: 'there', appName: 'app' }, [newWorkflow('d', { version: 'v2' })]);
    await workflows.insertMany({ executorId: 'else', appName: 'other' }, [newWorkflow('e')]);
    await start(store, 'ended');
    await workflows.finishMany([finished('ended')]);
    const common = { version: 'v1', appName: 'app' };
    const names = await workflows.pendingKeys({ ...common, executorIds: ['here', 'there', 'else'] });
    expect(new Set(names)).toEqual(
      new Set([
        { ...plainKey('greet'), workflowId: 'a' },
        { ...plainKey('charge'), workflowId: 'c' },
      ]),
    );
    expect(await workflows.pendingKeys({ ...common, executorIds: [] })).toEqual([]);
    expect(await workflows.pendingExecutors(common)).toEqual(['here']);
    expect(await workflows.pendingExecutors({ ...common, version: 'v2' })).toEqual(['there']);
  });
});

describeStorage('claims of work that waits on a queue', (store) => {
  const enqueue = async (queueName: string, ...ids: readonly string[]): Promise<void> => {
    await start(store, ...ids);
    const owned = ids.map((id) => ({ workflowId: id, owner: `owner of ${id}` }));
    await store.storage.workflows.release({ owned, queueName, now: 3000 });
  };
  const claim = (more: Partial<Parameters<typeof dequeue>[1]> = {}, storage = store.storage) =>
    dequeue(storage, { ...newClaim(), queueName: 'q', ...more });

  it('makes it PENDING under a fresh owner token, started now, one attempt more', async () => {
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

  it('takes only what is ENQUEUED there, of this version and app, and what it can run', async () => {
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

  it('gives a workflow up when it has had its attempts', async () => {
    await enqueue('q', 'a');
    const once = [{ name: 'greet', maxRecoveryAttempts: 1 }];
    await claim({ runnable: once });
    const orphans = { ...newClaim({ runnable: once }), executorIds: ['claimer'], exceptOwners: noneOfOurs };
    await store.storage.workflows.claimPending(orphans);
    expect(await claim({ runnable: once })).toMatchObject([{ status: 'PENDING', attempts: 2 }]);
    await store.storage.workflows.claimPending(orphans);
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
