import { expect, it } from 'vitest';
import { describeStorage, finished, newChild, newWorkflow, start, statuses, writer } from './contract-support.js';

describeStorage('starting, finishing and reading workflows', (store) => {
  it('stores a new workflow as PENDING in its first attempt, with everything it was given', async () => {
    const row = newWorkflow('a', {
      inputs: '[1]',
      timeoutMs: 500,
      deadlineAt: 1500,
      ...{ className: 'Shop', configName: 'eu', user: 'ada', roles: '["admin"]', assumedRole: 'admin' },
      attributes: '{"order": 7}',
    });
    expect(await store.storage.workflows.insertMany(writer, [row])).toEqual(new Set(['owner of a']));
    const [stored] = await store.storage.workflows.get(['a']);
    expect({ ...stored, attributes: JSON.parse(stored?.attributes ?? '') }).toEqual({
      workflowId: 'a',
      status: 'PENDING',
      name: 'greet',
      className: 'Shop',
      configName: 'eu',
      inputs: '[1]',
      output: null,
      error: null,
      serialization: 'js_superjson',
      executorId: 'here',
      owner: 'owner of a',
      version: 'v1',
      appName: 'app',
      attempts: 1,
      createdAt: 1000,
      updatedAt: 1000,
      startedAt: 1000,
      completedAt: null,
      timeoutMs: 500,
      deadlineAt: 1500,
      parentWorkflowId: null,
      queueName: null,
      priority: 0,
      dedupId: null,
      partition: null,
      delayUntil: null,
      scheduleName: null,
      user: 'ada',
      roles: '["admin"]',
      assumedRole: 'admin',
      attributes: { order: 7 },
      statusReason: null,
      forkedFrom: null,
      wasForkedFrom: false,
      retries: null,
      underWay: null,
      seed: null,
      beganAt: null,
      incarnation: 'owner of a',
      neverRan: false,
    });
  });

  it('does not change the workflow of a taken ID, and starts the rest of the batch', async () => {
    await start(store, 'taken');
    const rows = [newWorkflow('taken', { owner: 'late', name: 'other' }), newWorkflow('free')];
    expect(await store.storage.workflows.insertMany(writer, rows)).toEqual(new Set(['owner of free']));
    expect(await store.storage.workflows.get(['taken'])).toMatchObject([{ owner: 'owner of taken', name: 'greet' }]);
  });

  it('starts one workflow when a batch has two rows of one ID', async () => {
    const rows = [newWorkflow('a', { owner: 'first' }), newWorkflow('a', { owner: 'second' }), newWorkflow('b')];
    const created = await store.storage.workflows.insertMany(writer, rows);
    const [stored] = await store.storage.workflows.get(['a']);
    expect(created).toEqual(new Set([stored?.owner, 'owner of b']));
  });

  it('starts one workflow when two processes start the same ID at once', async () => {
    const other = await store.another();
    const ids = Array.from({ length: 50 }, (_, i) => `race-${i}`);
    const rows = (owner: string) => ids.map((id) => newWorkflow(id, { owner: `${owner} ${id}` }));
    const created = await Promise.all([
      store.storage.workflows.insertMany(writer, rows('x')),
      other.workflows.insertMany(writer, rows('y')),
    ]);
    const owners = (await store.storage.workflows.get(ids)).map((row) => row.owner).sort();
    expect([...created[0], ...created[1]].sort()).toEqual(owners);
    expect(owners).toHaveLength(50);
  });

  it('starts a child only while its parent is PENDING under the given owner', async () => {
    const { workflows } = store.storage;
    await start(store, 'parent', 'ended');
    await workflows.finishMany([finished('ended')]);
    const rows = [
      newChild('child', 'parent'),
      newChild('of a former owner', 'parent', { parentOwner: 'former' }),
      newChild('of an ended parent', 'ended'),
      newChild('of no parent', 'nowhere'),
    ];
    expect(await workflows.insertChildren(writer, rows)).toEqual(new Set(['owner of child']));
    expect(await workflows.list({ parentWorkflowId: 'parent' })).toMatchObject([{ workflowId: 'child', attempts: 1 }]);
    expect(await statuses(store)).toEqual({ parent: 'PENDING', ended: 'SUCCESS', child: 'PENDING' });
  });

  it('does not change the workflow of a taken ID when a child uses the ID', async () => {
    await start(store, 'parent', 'taken');
    const created = await store.storage.workflows.insertChildren(writer, [newChild('taken', 'parent', { owner: 'x' })]);
    expect(created).toEqual(new Set());
    expect(await store.storage.workflows.get(['taken'])).toMatchObject([{ parentWorkflowId: null }]);
  });

  it('finishes workflows with their outcome', async () => {
    const { workflows } = store.storage;
    await start(store, 'good', 'bad', 'empty');
    const rows = [
      finished('good'),
      finished('bad', { status: 'ERROR', output: null, error: '"oops"' }),
      finished('empty', { output: '' }),
    ];
    expect(await workflows.finishMany(rows)).toEqual(new Set(['good', 'bad', 'empty']));
    const found = new Map((await workflows.get(['good', 'bad', 'empty'])).map((row) => [row.workflowId, row]));
    expect(found.get('good')).toMatchObject({ status: 'SUCCESS', output: '"result"', error: null, completedAt: 2000 });
    expect(found.get('bad')).toMatchObject({ status: 'ERROR', output: null, error: '"oops"', updatedAt: 2000 });
    expect(found.get('empty')).toMatchObject({ status: 'SUCCESS', output: '' });
  });

  it('changes and reports nothing if a former owner finishes a workflow, or if it is finished twice', async () => {
    const { workflows } = store.storage;
    await start(store, 'a', 'b');
    expect(await workflows.finishMany([finished('a', { owner: 'former' }), finished('nowhere')])).toEqual(new Set());
    expect(await workflows.finishMany([finished('b')])).toEqual(new Set(['b']));
    expect(await workflows.finishMany([finished('b', { status: 'ERROR', error: '"late"' })])).toEqual(new Set());
    expect(await statuses(store)).toEqual({ a: 'PENDING', b: 'SUCCESS' });
    expect(await workflows.get(['b'])).toMatchObject([{ output: '"result"', error: null }]);
  });

  it('writes the outcome of the owner if a batch also has one of a former owner', async () => {
    const { workflows } = store.storage;
    await start(store, 'a');
    const rows = [finished('a', { owner: 'former', output: 'wrong' }), finished('a', { output: 'right' })];
    expect(await workflows.finishMany(rows)).toEqual(new Set(['a']));
    expect(await workflows.get(['a'])).toMatchObject([{ output: 'right' }]);
  });

  it('reads nothing for unknown IDs or an empty list', async () => {
    const { workflows } = store.storage;
    await start(store, 'a');
    expect(await workflows.get([])).toEqual([]);
    expect(await workflows.get(['nowhere'])).toEqual([]);
    expect(await workflows.endings([])).toEqual([]);
    expect(await workflows.endings(['a', 'nowhere'])).toHaveLength(1);
    expect(await workflows.insertMany(writer, [])).toEqual(new Set());
    expect(await workflows.insertChildren(writer, [])).toEqual(new Set());
    expect(await workflows.finishMany([])).toEqual(new Set());
  });

  it('reads the status of workflows, with outcomes only if they have ended', async () => {
    const { workflows } = store.storage;
    await start(store, 'running', 'good', 'bad', 'cancelled');
    await workflows.finishMany([finished('good'), finished('bad', { status: 'ERROR', output: null, error: '"no"' })]);
    await workflows.cancel({ workflowIds: ['cancelled'], reason: 'enough', now: 2000 });
    await store.sql(`update ${store.table('workflow_status')} set output = 'draft' where workflow_uuid = 'running'`);
    const endings = await workflows.endings(['running', 'good', 'bad', 'cancelled']);
    const common = { output: null, error: null, serialization: 'js_superjson', statusReason: null };
    expect(new Set(endings)).toEqual(
      new Set([
        { ...common, workflowId: 'running', status: 'PENDING' },
        { ...common, workflowId: 'good', status: 'SUCCESS', output: '"result"' },
        { ...common, workflowId: 'bad', status: 'ERROR', error: '"no"' },
        { ...common, workflowId: 'cancelled', status: 'CANCELLED', statusReason: 'enough' },
      ]),
    );
  });
});
