import { expect, it } from 'vitest';
import {
  describeStorage,
  finished,
  idsOf,
  newChild,
  newStep,
  newWorkflow,
  type Store,
  start,
  statuses,
  writer,
} from './contract-support.js';

/** root -> (a -> (a1 -> a2), b, detached -> below detached); aside is not in the tree. */
async function plantTree(store: Store): Promise<void> {
  const { workflows } = store.storage;
  await start(store, 'root', 'aside');
  const children = [newChild('a', 'root'), newChild('b', 'root'), newChild('detached', 'root', { detached: true })];
  await workflows.insertChildren(writer, children);
  await workflows.insertChildren(writer, [newChild('a1', 'a'), newChild('below detached', 'detached')]);
  await workflows.insertChildren(writer, [newChild('a2', 'a1')]);
}

describeStorage('cancel', (store) => {
  const cancel = (...workflowIds: readonly string[]): Promise<string[]> =>
    idsOf(store.storage.workflows.cancel({ workflowIds, reason: 'enough', now: 2000 }));

  it('reaches children and their children, but not detached ones', async () => {
    await plantTree(store);
    expect(await cancel('root')).toEqual(['a', 'a1', 'a2', 'b', 'root']);
    expect(await statuses(store)).toMatchObject({
      detached: 'PENDING',
      'below detached': 'PENDING',
      aside: 'PENDING',
    });
    const rows = await store.storage.workflows.get(['root', 'a2']);
    for (const row of rows) {
      expect(row).toMatchObject({ status: 'CANCELLED', statusReason: 'enough', completedAt: 2000, updatedAt: 2000 });
      expect(row.owner).toBe(`owner of ${row.workflowId}`);
    }
  });

  it('does not reach parents', async () => {
    await plantTree(store);
    expect(await cancel('a1')).toEqual(['a1', 'a2']);
    expect(await cancel('detached')).toEqual(['below detached', 'detached']);
  });

  it('reaches the children of a child that has ended', async () => {
    await plantTree(store);
    await store.storage.workflows.finishMany([finished('a'), finished('a1')]);
    expect(await cancel('root')).toEqual(['a2', 'b', 'root']);
    expect(await statuses(store)).toMatchObject({ a: 'SUCCESS', a1: 'SUCCESS' });
  });

  it('does not change ended workflows, and reports nothing the second time', async () => {
    await start(store, 'good', 'bad', 'stalled');
    const { workflows } = store.storage;
    await workflows.finishMany([finished('good'), finished('bad', { status: 'ERROR' })]);
    await workflows.stall({ workflowId: 'stalled', owner: 'owner of stalled', reason: 'x', error: '"x"', now: 2000 });
    expect(await cancel('good', 'bad', 'stalled', 'nowhere')).toEqual([]);
    expect(await cancel()).toEqual([]);
    expect(await statuses(store)).toEqual({ good: 'SUCCESS', bad: 'ERROR', stalled: 'STALLED' });
    await plantTree(store);
    expect(await cancel('root', 'a', 'aside')).toHaveLength(6);
    expect(await cancel('root', 'a', 'aside')).toEqual([]);
  });

  it('reports the owner under which each workflow was cancelled, and the reason', async () => {
    await start(store, 'a');
    const changed = await store.storage.workflows.cancel({ workflowIds: ['a'], reason: 'timeout', now: 2000 });
    expect(changed).toEqual([{ workflowId: 'a', owner: 'owner of a', reason: 'timeout', queueName: null }]);
  });

  it('takes work off a queue', async () => {
    await start(store, 'a');
    const owned = [{ workflowId: 'a', owner: 'owner of a' }];
    await store.storage.workflows.release({ owned, queueName: 'q', now: 1500 });
    expect(await cancel('a')).toEqual(['a']);
  });

  it('prevents later starts of children', async () => {
    await start(store, 'root');
    await cancel('root');
    expect(await store.storage.workflows.insertChildren(writer, [newChild('late', 'root')])).toEqual(new Set());
    expect(await statuses(store)).toEqual({ root: 'CANCELLED' });
  });

  it('leaves no child running when parents start children at the same time', async () => {
    const parents = Array.from({ length: 20 }, (_, i) => `p${i}`);
    await start(store, ...parents);
    const other = await store.another();
    const children = parents.flatMap((parent) => [0, 1, 2].map((i) => newChild(`${parent}-${i}`, parent)));
    const inserts = children.map((child) => other.workflows.insertChildren(writer, [child]));
    await Promise.all([cancel(...parents), ...inserts]);
    expect(await store.storage.workflows.list({ status: ['PENDING'] })).toEqual([]);
  });
});

describeStorage('resume', (store) => {
  const resume = async (...workflowIds: readonly string[]): Promise<string[]> =>
    (await idsOf(store.storage.workflows.resume({ workflowIds, queueName: 'internal', now: 4000 }))).sort();
  const cancel = (...workflowIds: readonly string[]) =>
    store.storage.workflows.cancel({ workflowIds, reason: 'enough', now: 2000 });

  it('puts a cancelled workflow on a queue with no attempts counted', async () => {
    await store.storage.workflows.insertMany(writer, [newWorkflow('a', { timeoutMs: 50, deadlineAt: 1050 })]);
    await cancel('a');
    expect(await resume('a')).toEqual(['a']);
    expect(await store.storage.workflows.get(['a'])).toMatchObject([
      {
        status: 'ENQUEUED',
        queueName: 'internal',
        attempts: 0,
        owner: null,
        executorId: null,
        deadlineAt: null,
        timeoutMs: 50,
        completedAt: null,
        statusReason: null,
        updatedAt: 4000,
      },
    ]);
    expect(await resume('a')).toEqual([]);
  });

  it('restarts STALLED and given-up workflows, and no others', async () => {
    await start(store, 'stalled', 'dead', 'good', 'bad', 'running');
    const { workflows } = store.storage;
    await workflows.stall({ workflowId: 'stalled', owner: 'owner of stalled', reason: 'x', error: '"x"', now: 2000 });
    await workflows.finishMany([finished('good'), finished('bad', { status: 'ERROR' })]);
    const status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED';
    await store.sql(`update ${store.table('workflow_status')} set status = '${status}' where workflow_uuid = 'dead'`);
    expect(await resume('stalled', 'dead', 'good', 'bad', 'running', 'nowhere')).toEqual(['dead', 'stalled']);
    expect(await resume()).toEqual([]);
    expect(await statuses(store)).toMatchObject({ good: 'SUCCESS', bad: 'ERROR', running: 'PENDING' });
  });

  it('brings cancelled children back with their parent', async () => {
    await plantTree(store);
    await store.storage.workflows.finishMany([finished('b')]);
    await cancel('root');
    expect(await resume('root')).toEqual(['a', 'a1', 'a2', 'root']);
    expect(await statuses(store)).toMatchObject({ b: 'SUCCESS', detached: 'PENDING', aside: 'PENDING' });
  });

  it('does not bring back a detached child that was cancelled separately', async () => {
    await plantTree(store);
    await cancel('root', 'detached');
    expect(await resume('root')).toEqual(['a', 'a1', 'a2', 'b', 'root']);
  });

  it('brings back a part of a tree without the rest', async () => {
    await plantTree(store);
    await cancel('root');
    expect(await resume('a1')).toEqual(['a1', 'a2']);
    expect(await idsOf(store.storage.workflows.list({ status: ['CANCELLED'] }))).toEqual(['a', 'b', 'root']);
  });

  it('leaves a child cancelled if its parent has recorded the cancellation as its result', async () => {
    await plantTree(store);
    await cancel('a');
    const result = { name: 'DBOS.getResult', output: null, error: '"cancelled"' };
    await store.storage.steps.recordMany('app', [
      newStep('root', 0, { childWorkflowId: 'a', output: null }),
      newStep('root', 1, { ...result, childWorkflowId: 'a' }),
      newStep('root', 2, { childWorkflowId: 'b', output: null }),
    ]);
    await cancel('root');
    expect(await resume('root')).toEqual(['b', 'root']);
    expect(await statuses(store)).toMatchObject({ a: 'CANCELLED', a1: 'CANCELLED', a2: 'CANCELLED' });
  });
});
