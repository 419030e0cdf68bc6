import { expect, it } from 'vitest';
import {
  describeStorage,
  finished,
  newChild,
  newStep,
  newWorkflow,
  type Store,
  start,
  statuses,
  writer,
} from './contract-support.js';
import { effectful, message, set, written } from './messaging-support.js';

/** root -> (a -> a1, b); `a1` is in the history of other. All have ended, except the workflows in the arguments. */
async function plant(store: Store, ...unfinished: readonly string[]): Promise<void> {
  const { workflows, steps } = store.storage;
  await start(store, 'root', 'other');
  await workflows.insertChildren(writer, [newChild('a', 'root'), newChild('b', 'root', { detached: true })]);
  await workflows.insertChildren(writer, [newChild('a1', 'a')]);
  await steps.recordMany('app', [newStep('other', 0, { childWorkflowId: 'a1' })]);
  const ended = ['root', 'a', 'b', 'a1', 'other'].filter((id) => !unfinished.includes(id));
  await workflows.finishMany(ended.map((id) => finished(id)));
}

describeStorage('deletions.remove', (store) => {
  const remove = (children: boolean, ...workflowIds: readonly string[]) =>
    store.storage.deletions.remove({ workflowIds, children });
  const obstacles = (children: boolean, ...workflowIds: readonly string[]) =>
    store.storage.deletions.obstacles({ workflowIds, children });

  it('deletes everything that belongs to a workflow, and nothing of other workflows', async () => {
    const { storage } = store;
    await start(store, 'a', 'b');
    for (const id of ['a', 'b']) {
      await storage.steps.recordEffects('app', [effectful(id, 0, [set('k', '"1"'), written('s', '"1"')])]);
      await storage.messages.send([message(`to ${id}`, id)]);
    }
    await storage.workflows.finishMany([finished('a'), finished('b')]);
    expect(await remove(false, 'a', 'nowhere')).toBe(1);
    for (const table of ['operation_outputs', 'workflow_events', 'workflow_events_history', 'streams']) {
      expect(await store.sql(`select distinct workflow_uuid as id from ${store.table(table)}`)).toEqual([{ id: 'b' }]);
    }
    expect(await store.sql(`select message_uuid as id from ${store.table('notifications')}`)).toEqual([{ id: 'to b' }]);
    expect(await remove(false, 'a')).toBe(0);
    expect(await obstacles(false, 'a')).toEqual([]);
  });

  it('deletes workflows with any terminal status, and no others', async () => {
    const { workflows } = store.storage;
    await start(store, 'good', 'bad', 'stalled', 'cancelled', 'running');
    await workflows.finishMany([finished('good'), finished('bad', { status: 'ERROR' })]);
    await workflows.stall({ workflowId: 'stalled', owner: 'owner of stalled', reason: 'x', error: '"x"', now: 2000 });
    await workflows.cancel({ workflowIds: ['cancelled'], reason: null, now: 2000 });
    expect(await remove(false, 'good', 'running')).toBe(0);
    expect(await obstacles(false, 'good', 'running')).toEqual([
      { kind: 'unfinished', workflowId: 'running', status: 'PENDING' },
    ]);
    expect(await remove(false, 'good', 'bad', 'stalled', 'cancelled')).toBe(4);
    expect(await statuses(store)).toEqual({ running: 'PENDING' });
  });

  it('deletes a whole tree if asked to, and leaves of a tree by themselves', async () => {
    await plant(store);
    expect(await remove(false, 'root')).toBe(0);
    expect(await obstacles(false, 'root')).toMatchObject([{ kind: 'child' }, { kind: 'child' }, { kind: 'child' }]);
    expect(await remove(false, 'root', 'a')).toBe(0);
    expect(await remove(false, 'b')).toBe(1);
    expect(await remove(false, 'root', 'a', 'a1')).toBe(3);
    expect(await statuses(store)).toEqual({ other: 'SUCCESS' });
  });

  it.each(['root', 'a', 'b', 'a1', 'other'])('deletes nothing of a tree while "%s" is unfinished', async (id) => {
    await plant(store, id);
    expect(await remove(true, 'root')).toBe(0);
    const [first] = await obstacles(true, 'root');
    expect(first).toMatchObject(
      id === 'other' ? { kind: 'needed', workflowId: 'a1', neededBy: 'other' } : { workflowId: id },
    );
    await store.storage.workflows.finishMany([finished(id)]);
    expect(await remove(true, 'root')).toBe(4);
  });

  it('keeps a child that its parent needs, and keeps a workflow whole that is resumed in a race', async () => {
    const { workflows } = store.storage;
    await start(store, 'p');
    await workflows.insertChildren(writer, [newChild('c', 'p')]);
    await workflows.finishMany([finished('c')]);
    expect(await remove(true, 'c')).toBe(0);
    expect(await obstacles(true, 'c')).toEqual([{ kind: 'needed', workflowId: 'c', neededBy: 'p' }]);
    const other = await store.another();
    for (let round = 0; round < 20; round++) {
      const [root, child] = [`r${round}`, `r${round}-0`];
      await workflows.insertMany(writer, [newWorkflow(root)]);
      await workflows.insertChildren(writer, [newChild(child, root)]);
      await workflows.cancel({ workflowIds: [root], reason: null, now: 2000 });
      const resume = { workflowIds: [root], queueName: 'internal', now: 3000 };
      const [gone, resumed] = await Promise.all([remove(true, root), other.workflows.resume(resume)]);
      const left = (await workflows.get([root, child])).map(({ status }) => status);
      expect([gone, resumed.length, left]).toEqual(gone > 0 ? [2, 0, []] : [0, 2, ['ENQUEUED', 'ENQUEUED']]);
    }
  });

  it('waits for an uncommitted resume, and deletes nothing that the resume brings back', async () => {
    if (store.backend === 'sqlite') return;
    const { workflows } = store.storage;
    await start(store, 'r');
    await workflows.insertChildren(writer, [newChild('r-0', 'r')]);
    await workflows.cancel({ workflowIds: ['r'], reason: null, now: 2000 });
    await store.sql('begin');
    await store.sql(`update ${store.table('workflow_status')} set status = 'ENQUEUED' where workflow_uuid = 'r-0'`);
    const removing = remove(true, 'r');
    while ((await store.sql('select 1 from pg_locks where not granted')).length === 0);
    await store.sql('commit');
    expect(await removing).toBe(0);
    expect(await statuses(store)).toEqual({ r: 'CANCELLED', 'r-0': 'ENQUEUED' });
  });

  it('leaves no message behind: a concurrent send reaches the workflow or finds it missing', async () => {
    const { workflows } = store.storage;
    const other = await store.another();
    for (let round = 0; round < 20; round++) {
      const id = `m${round}`;
      await workflows.insertMany(writer, [newWorkflow(id)]);
      await workflows.finishMany([finished(id)]);
      const sending = (async () => {
        for (;;) {
          const sent = await other.messages.send([message(`${id} m`, id)]).catch((error) => {
            expect(other.classify(error)).toBe('retry');
          });
          if (sent) return sent.size;
        }
      })();
      const [gone] = await Promise.all([remove(false, id), sending]);
      expect(gone).toBe(1);
    }
    expect(await store.sql(`select 1 from ${store.table('notifications')}`)).toEqual([]);
  });

  it('deletes the steps even without a foreign key', async () => {
    if (store.backend === 'sqlite') return;
    // DBOS 5 leaves the table in this state.
    const steps = store.table('operation_outputs');
    const [key] = await store.sql(
      `select conname as name from pg_constraint where conrelid = '${steps}'::regclass and contype = 'f'`,
    );
    await store.sql(`alter table ${steps} drop constraint ${key?.name}`);
    await start(store, 'a');
    await store.storage.steps.recordMany('app', [newStep('a', 0)]);
    await store.storage.workflows.finishMany([finished('a')]);
    expect(await remove(false, 'a')).toBe(1);
    expect(await store.sql(`select 1 from ${steps}`)).toEqual([]);
  });
});
