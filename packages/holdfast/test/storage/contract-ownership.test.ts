import { expect, it } from 'vitest';
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

describeStorage('ownership of workflows: releases, stalls and deadlines', (store) => {
  it('releases work to a queue, without an owner and with its attempt given back', async () => {
    const { workflows } = store.storage;
    await start(store, 'a', 'b', 'c');
    const owned = [
      { workflowId: 'a', owner: 'owner of a' },
      { workflowId: 'b', owner: 'former' },
    ];
    expect(await workflows.release({ owned, queueName: 'internal', now: 3000 })).toEqual(new Set(['a']));
    expect(await workflows.get(['a'])).toMatchObject([
      { status: 'ENQUEUED', queueName: 'internal', owner: null, executorId: null, attempts: 0, updatedAt: 3000 },
    ]);
    expect(await workflows.get(['b'])).toMatchObject([{ status: 'PENDING', owner: 'owner of b', attempts: 1 }]);
  });

  it('releases only PENDING workflows, and nothing for an empty list', async () => {
    const { workflows } = store.storage;
    await start(store, 'a');
    await workflows.finishMany([finished('a')]);
    const owned = [{ workflowId: 'a', owner: 'owner of a' }];
    expect(await workflows.release({ owned, queueName: 'internal', now: 3000 })).toEqual(new Set());
    expect(await workflows.release({ owned: [], queueName: 'internal', now: 3000 })).toEqual(new Set());
    expect(await statuses(store)).toEqual({ a: 'SUCCESS' });
  });

  it('releases work of a queue to the same queue', async () => {
    const { workflows } = store.storage;
    await start(store, 'a');
    const owned = (owner: string) => [{ workflowId: 'a', owner }];
    await workflows.release({ owned: owned('owner of a'), queueName: 'emails', now: 3000 });
    await dequeue(store.storage, { ...newClaim(), queueName: 'emails' });
    await workflows.release({ owned: owned('claim'), queueName: 'internal', now: 3000 });
    expect(await workflows.get(['a'])).toMatchObject([{ queueName: 'emails', attempts: 0 }]);
  });

  it('stalls a workflow and gives its attempt back, except for the first attempt', async () => {
    const { workflows } = store.storage;
    await start(store, 'a');
    await start(store, 'recovered');
    await store.sql(
      `update ${store.table('workflow_status')} set recovery_attempts = 3 where workflow_uuid = 'recovered'`,
    );
    const params = { workflowId: 'a', reason: 'the code changed', error: '"changed"', now: 3000 };
    expect(await workflows.stall({ ...params, owner: 'former' })).toBe(false);
    expect(await statuses(store)).toEqual({ a: 'PENDING', recovered: 'PENDING' });
    expect(await workflows.stall({ ...params, owner: 'owner of a' })).toBe(true);
    expect(await workflows.get(['a'])).toMatchObject([
      {
        status: 'STALLED',
        statusReason: 'the code changed',
        error: '"changed"',
        attempts: 1,
        completedAt: 3000,
        owner: 'owner of a',
      },
    ]);
    expect(await workflows.stall({ ...params, owner: 'owner of a' })).toBe(false);
    expect(await workflows.finishMany([finished('a')])).toEqual(new Set());
    await workflows.stall({ ...params, workflowId: 'recovered', owner: 'owner of recovered' });
    expect(await workflows.get(['recovered'])).toMatchObject([{ attempts: 2 }]);
  });

  it('finds unfinished workflows whose deadline has passed', async () => {
    const { workflows } = store.storage;
    await workflows.insertMany(writer, [
      newWorkflow('passed', { deadlineAt: 1999 }),
      newWorkflow('just now', { deadlineAt: 2000 }),
      newWorkflow('later', { deadlineAt: 2001 }),
      newWorkflow('none'),
      newWorkflow('ended', { deadlineAt: 1999 }),
      newWorkflow('handed over', { deadlineAt: 1999 }),
    ]);
    await workflows.finishMany([finished('ended')]);
    const owned = [{ workflowId: 'handed over', owner: 'owner of handed over' }];
    await workflows.release({ owned, queueName: 'internal', now: 1500 });
    expect((await workflows.expired({ now: 2000, limit: 10 })).sort()).toEqual(['handed over', 'just now', 'passed']);
    expect(await workflows.expired({ now: 2000, limit: 1 })).toHaveLength(1);
    expect(await workflows.expired({ now: 1000, limit: 10 })).toEqual([]);
  });

  it('lists the workflows that were cancelled since an instant, with the reason', async () => {
    const { workflows } = store.storage;
    await start(store, 'early', 'late', 'ended', 'running');
    await workflows.finishMany([finished('ended')]);
    await workflows.cancel({ workflowIds: ['early'], reason: null, now: 1999 });
    await workflows.cancel({ workflowIds: ['late', 'ended'], reason: 'timeout', now: 2000 });
    expect(await workflows.cancelledSince(2000)).toEqual([
      { workflowId: 'late', owner: 'owner of late', reason: 'timeout', queueName: null },
    ]);
    expect(await idsOf(workflows.cancelledSince(0))).toEqual(['early', 'late']);
    expect(await workflows.cancelledSince(2001)).toEqual([]);
  });
});

describeStorage('lists of workflows', (store) => {
  const plant = async (): Promise<void> => {
    const { workflows } = store.storage;
    await workflows.insertMany(writer, [
      newWorkflow('c', { createdAt: 10 }),
      newWorkflow('a', { createdAt: 20, name: 'charge' }),
      newWorkflow('b', { createdAt: 20 }),
      newWorkflow('d', { createdAt: 30, version: 'v2' }),
    ]);
    await workflows.insertMany({ executorId: 'there', appName: 'app' }, [newWorkflow('e', { createdAt: 40 })]);
    await workflows.finishMany([finished('b')]);
    await workflows.cancel({ workflowIds: ['c'], reason: null, now: 2000 });
  };
  const list = async (filter: Parameters<typeof store.storage.workflows.list>[0]): Promise<string> =>
    (await store.storage.workflows.list(filter)).map((row) => row.workflowId).join('');

  it('sort the oldest first, and by ID within an instant, or in reverse', async () => {
    await plant();
    expect(await list({})).toBe('cabde');
    expect(await list({ newestFirst: true })).toBe('edbac');
  });

  it('can be read page by page', async () => {
    await plant();
    expect(await list({ limit: 2 })).toBe('ca');
    expect(await list({ limit: 2, offset: 2 })).toBe('bd');
    expect(await list({ limit: 2, offset: 4 })).toBe('e');
    expect(await list({ offset: 9 })).toBe('');
    expect(await list({ limit: 0 })).toBe('');
    expect(await list({ newestFirst: true, limit: 1, offset: 1 })).toBe('d');
  });

  it('filter by each field, and by all fields together', async () => {
    await plant();
    expect(await list({ ids: ['e', 'a', 'nowhere'] })).toBe('ae');
    expect(await list({ ids: [] })).toBe('');
    expect(await list({ status: ['SUCCESS', 'CANCELLED'] })).toBe('cb');
    expect(await list({ status: [] })).toBe('');
    expect(await list({ name: 'charge' })).toBe('a');
    expect(await list({ name: '' })).toBe('');
    expect(await list({ executorId: 'there' })).toBe('e');
    expect(await list({ version: 'v2' })).toBe('d');
    expect(await list({ parentWorkflowId: 'a' })).toBe('');
    expect(await list({ ids: ['a', 'b', 'c'], name: 'greet', status: ['SUCCESS'], version: 'v1' })).toBe('b');
  });

  it('treat a filter as a value, never as SQL', async () => {
    await plant();
    for (const name of ["greet' or 'a' = 'a", '"; drop table workflow_status; --', '%', '{greet}', 'NULL']) {
      expect(await list({ name, ids: ['a', name] })).toBe('');
    }
    expect(await list({})).toBe('cabde');
  });
});
