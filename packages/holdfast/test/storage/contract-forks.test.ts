import { expect, it } from 'vitest';
import { internalQueue } from '../../src/model/queues.js';
import type { NewFork } from '../../src/storage/contract/forks.js';
import {
  dequeue,
  describeStorage,
  finished,
  newChild,
  newClaim,
  newStep,
  newWorkflow,
  type Store,
  start,
  writer,
} from './contract-support.js';
import { effectful, set, written } from './messaging-support.js';

function newFork(workflowId: string, forkedFrom: string, more: Partial<NewFork> = {}): NewFork {
  return {
    workflowId,
    forkedFrom,
    fromStep: 0,
    createdAt: 9000,
    queueName: internalQueue,
    partition: null,
    priority: 0,
    version: null,
    appName: null,
    timeoutMs: null,
    untimed: false,
    delayUntil: null,
    children: '[]',
    ...more,
  };
}

/** Creates workflow `a`: a step, a step with an event and a value in a stream, a child, a sleep that has begun. */
async function plant({ storage }: Store): Promise<void> {
  const more = { timeoutMs: 60_000, deadlineAt: 61_000, user: 'ada', roles: '["r"]', assumedRole: 'r' };
  await storage.workflows.insertMany(writer, [newWorkflow('a', { ...more, attributes: '{"k":1}' })]);
  await storage.steps.recordMany('app', [newStep('a', 0, { output: '"zero"', completionSeq: 1 })]);
  await storage.steps.recordEffects('app', [effectful('a', 1, [set('k', '"1"'), written('s', '"1"')])]);
  await storage.workflows.insertChildren(writer, [newChild('a-2', 'a')]);
  await storage.steps.recordMany('app', [newStep('a', 2, { output: null, childWorkflowId: 'a-2', completionSeq: 3 })]);
  const begun = { name: 'DBOS.sleep', output: '7777', completedAt: 7777, completionSeq: null };
  await storage.steps.recordMany('app', [newStep('a', 3, begun)]);
}

const owned = ['operation_outputs', 'workflow_events', 'workflow_events_history', 'streams'];

describeStorage('forks.create', (store) => {
  const create = (id: string, more: Partial<NewFork> = {}) => store.storage.forks.create(newFork(id, 'a', more));

  it('copies everything of the steps before the fork, and nothing of later steps', async () => {
    await plant(store);
    expect(await create('f', { fromStep: 4 })).toBe(true);
    const contents = async (id: string) =>
      Promise.all(
        owned.map(async (table) => {
          const rows = await store.sql(`select * from ${store.table(table)} where workflow_uuid = '${id}'`);
          return rows.map((row) => JSON.stringify({ ...row, workflow_uuid: null })).sort();
        }),
      );
    expect((await contents('a')).map((rows) => rows.length)).toEqual([4, 1, 1, 1]);
    expect(await contents('f')).toEqual(await contents('a'));
    expect(await create('g', { fromStep: 1 })).toBe(true);
    expect((await contents('g')).map((rows) => rows.length)).toEqual([1, 0, 0, 0]);
  });

  it('enqueues the fork as new, with the arguments of the original, and marks the original', async () => {
    await plant(store);
    await create('f', { fromStep: 2 });
    const [a, f] = await Promise.all(['a', 'f'].map(async (id) => (await store.storage.workflows.get([id]))[0]));
    expect(f).toMatchObject({
      ...{ status: 'ENQUEUED', attempts: 0, owner: null, executorId: null, queueName: internalQueue },
      ...{ createdAt: 9000, updatedAt: 9000, startedAt: null, completedAt: null, deadlineAt: null, timeoutMs: 60_000 },
      ...{ forkedFrom: 'a', wasForkedFrom: false, parentWorkflowId: null, seed: 'a', beganAt: 1000 },
      ...{
        name: a?.name,
        inputs: a?.inputs,
        user: 'ada',
        roles: '["r"]',
        assumedRole: 'r',
        version: 'v1',
        appName: 'app',
      },
    });
    expect(JSON.parse(f?.attributes ?? '')).toEqual({ k: 1 });
    expect(f?.incarnation).toBeTruthy();
    expect(f?.incarnation).not.toBe(a?.incarnation);
    expect(a).toMatchObject({ status: 'PENDING', owner: 'owner of a', wasForkedFrom: true, forkedFrom: null });
    // The claimer reads the history of the fork, although the fork never ran.
    const [claimed] = await dequeue(store.storage, { ...newClaim(), queueName: internalQueue });
    expect(claimed).toMatchObject({ workflowId: 'f', neverRan: false, attempts: 1, deadlineAt: 65_000, seed: 'a' });
  });

  it('uses time and seed of the first original for a fork of a fork, unless no step is repeated', async () => {
    await plant(store);
    await create('f', { fromStep: 2 });
    await store.storage.forks.create(newFork('g', 'f', { fromStep: 1 }));
    await store.storage.forks.create(newFork('h', 'f'));
    const rows = await store.storage.workflows.get(['g', 'h']);
    const of = (id: string) => rows.find(({ workflowId }) => workflowId === id);
    expect(of('g')).toMatchObject({ forkedFrom: 'f', seed: 'a', beganAt: 1000 });
    expect(of('h')).toMatchObject({ forkedFrom: 'f', seed: null, beganAt: null });
  });

  it('changes nothing if the ID is taken, or if the original, the queue or the steps are missing', async () => {
    await plant(store);
    await start(store, 'b');
    expect(await create('b', { fromStep: 2 })).toBe(false);
    expect(await create('f', { forkedFrom: 'nowhere' })).toBe(false);
    expect(await create('f', { queueName: 'nowhere' })).toBe(false);
    expect(await create('f', { fromStep: 5 })).toBe(false);
    expect(await store.storage.forks.stepCount('a')).toBe(4);
    expect(await store.storage.forks.stepCount('b')).toBe(0);
    expect(await store.storage.workflows.get(['f'])).toEqual([]);
    expect(await store.storage.steps.history(['b', 'f'])).toEqual([]);
    expect((await store.storage.workflows.get(['a']))[0]?.wasForkedFrom).toBe(false);
  });

  it('creates one fork when many processes create it at once', async () => {
    await plant(store);
    const other = await store.another();
    const forks = Array.from({ length: 10 }, (_, i) =>
      (i % 2 ? other : store.storage).forks.create(newFork('f', 'a', { fromStep: 4 })),
    );
    expect((await Promise.all(forks)).filter(Boolean)).toHaveLength(1);
    expect(await store.storage.steps.history(['f'])).toHaveLength(4);
  });

  it('points to other children if asked to', async () => {
    await plant(store);
    await create('f', { fromStep: 3, children: '[{"old":"a-2","new":"other"},{"old":"x","new":"y"}]' });
    const steps = await store.storage.steps.history(['f']);
    expect(steps.map(({ childWorkflowId }) => childWorkflowId).filter(Boolean)).toEqual(['other']);
  });

  it('copies each step of a running workflow with all its effects, or not at all', async () => {
    await start(store, 'a');
    const last = 60;
    await store.storage.steps.recordMany('app', [newStep('a', last, { completionSeq: 1000 })]);
    const other = await store.another();
    const recording = (async () => {
      for (let i = 0; i < last; i++) {
        await other.steps.recordEffects('app', [effectful('a', i, [set(`k${i}`, '"v"'), written('s', `"${i}"`)])]);
      }
    })();
    let made = 0;
    const counts: unknown[] = [];
    for (let recorded = 0; recorded < last; ) {
      const id = `f${made++}`;
      expect(await create(id, { fromStep: last })).toBe(true);
      recorded = (await store.storage.steps.history([id])).length;
      const events = (await store.storage.events.list(id)).length;
      const values = (await store.storage.streams.list(id)).length;
      counts.push([recorded, events, values]);
      expect([events, values]).toEqual([recorded, recorded]);
    }
    await recording;
    await store.storage.workflows.finishMany([finished('a')]);
    // Otherwise no fork ran while a step was being recorded.
    if (store.backend === 'postgres') expect(made).toBeGreaterThan(2);
  });

  it('keeps the copied children, or creates no fork, if they are deleted meanwhile', async () => {
    if (store.backend === 'sqlite') return;
    const { workflows, forks, deletions } = store.storage;
    const queues = store.table('queues');
    /** Resolves when the work has ended, or when this many statements wait for a lock. */
    const settledOr = async (work: Promise<unknown>, waiting: number) => {
      let isSettled = false;
      void work.finally(() => {
        isSettled = true;
      });
      while (!isSettled && (await store.sql('select 1 from pg_locks where not granted')).length < waiting);
    };
    await store.sql(`insert into ${queues} (queue_id, name) values ('held', 'held')`);
    // The lock that the fork waits for: its queue, which the fork locks first, or one of the workflows.
    for (const held of [
      `${queues} where name = 'held'`,
      `${store.table('workflow_status')} where workflow_uuid = 'a-2'`,
    ]) {
      await store.sql(`delete from ${store.table('workflow_status')}`);
      await plant(store);
      await workflows.finishMany([finished('a-2'), finished('a')]);
      await store.sql('begin');
      await store.sql(`select 1 from ${held} for update`);
      const forking = forks.create(newFork('f', 'a', { fromStep: 3, queueName: 'held' }));
      await settledOr(forking, 1);
      const removing = deletions.remove({ workflowIds: ['a'], children: true });
      await settledOr(removing, 2);
      await store.sql('commit');
      expect([
        [true, 0],
        [false, 2],
      ]).toContainEqual([await forking, await removing]);
    }
    await store.sql(`delete from ${queues} where name = 'held'`);
  });

  it('waits for a deletion of the original, and then finds nothing to fork', async () => {
    if (store.backend === 'sqlite') return;
    await start(store, 'a');
    await store.sql('begin');
    await store.sql(`delete from ${store.table('workflow_status')} where workflow_uuid = 'a'`);
    const forking = store.storage.forks.create(newFork('f', 'a'));
    while ((await store.sql('select 1 from pg_locks where not granted')).length === 0);
    await store.sql('commit');
    expect(await forking).toBe(false);
  });
});
