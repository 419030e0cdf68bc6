import { expect, it } from 'vitest';
import { internalQueue } from '../../src/model/queues.js';
import { plainKey } from '../../src/model/workflow-key.js';
import type { FreeWork, TakenOver } from '../../src/storage/contract/takeovers.js';
import {
  dequeue,
  describeStorage,
  fate,
  finished,
  first,
  idsOf,
  newChild,
  newClaim,
  newTakeover,
  newWorkflow,
  start,
  statuses,
  writer,
} from './contract-support.js';

const freeOf = (more: Partial<FreeWork> = {}): FreeWork => ({ ...newTakeover().free, ...more }) as FreeWork;
const under = (executorId: string, incarnation: string | null = null) => ({ executorId, incarnation });

describeStorage('takeovers of work that an executor left PENDING', (store) => {
  const putBack = (more: Parameters<typeof newTakeover>[0] = {}, storage = store.storage) =>
    storage.takeovers.putBack(newTakeover(more));
  const insert = (rows: Parameters<typeof store.storage.workflows.insertMany>[1], by = writer) =>
    store.storage.workflows.insertMany(by, rows);

  it('put the work back for any executor without counting an attempt: the dequeue counts it', async () => {
    await start(store, 'a');
    const back = { workflowId: 'a', status: 'ENQUEUED', queueName: internalQueue, createdAt: 1000 };
    expect(await putBack()).toMatchObject([back]);
    const nobody = { owner: null, executorId: null, attempts: 1, updatedAt: 4000, completedAt: null };
    expect(await store.storage.workflows.get(['a'])).toMatchObject([nobody]);
    const claimed = await dequeue(store.storage, { ...newClaim({ owner: 'fresh' }), queueName: internalQueue });
    expect(claimed).toMatchObject([
      { workflowId: 'a', owner: 'fresh', attempts: 2, neverRan: store.backend === 'sqlite' },
    ]);
  });

  it('fence the former owner from that moment', async () => {
    await start(store, 'a');
    await putBack();
    const { workflows } = store.storage;
    expect(await workflows.finishMany([finished('a')])).toEqual(new Set());
    await dequeue(store.storage, { ...newClaim({ owner: 'fresh' }), queueName: internalQueue });
    expect(await workflows.finishMany([finished('a')])).toEqual(new Set());
    expect(await workflows.finishMany([finished('a', { owner: 'fresh' })])).toEqual(new Set(['a']));
    // Another late write, after the end.
    expect(await workflows.finishMany([finished('a', { output: '"other"' })])).toEqual(new Set());
    expect(await workflows.get(['a'])).toMatchObject([{ status: 'SUCCESS', output: '"result"' }]);
  });

  it('take from a dead incarnation only its own work, even if others use its executor ID', async () => {
    await insert([newWorkflow('dead', { owner: 'aaaa.1' }), newWorkflow('alive', { owner: 'bbbb.1' })]);
    await insert([newWorkflow('longer', { owner: 'aaaabb.1' }), newWorkflow('old', { owner: 'no token' })]);
    await insert([newWorkflow('elsewhere', { owner: 'aaaa.2' })], { ...writer, executorId: 'there' });
    expect(await idsOf(putBack({ free: freeOf({ executors: [under('here', 'aaaa')] }) }))).toEqual(['dead']);
  });

  it('take the work of an executor ID that no living incarnation owns', async () => {
    const owners = ['aaaa.1', 'bbbb.1', 'no token'];
    await insert(owners.map((owner) => newWorkflow(owner, { owner })));
    await store.sql(`update ${store.table('workflow_status')} set owner_xid = null where workflow_uuid = 'no token'`);
    expect(await idsOf(putBack({ free: freeOf({ live: ['bbbb', 'cccc'] }) }))).toEqual(['aaaa.1', 'no token']);
  });

  const joined = (incarnation: string) =>
    store.storage.executors.join({
      ...{ incarnation, executorId: 'here', appName: 'app', version: 'v1', host: 'host', pid: 1 },
      ...{ processStart: null, ttlMs: 30_000, lockKey: null, listens: null },
    });

  it('skip every joined executor not known as dead, even one that joined after the caller looked', async () => {
    await insert(['aaaa.1', 'bbbb.1', 'cccc.1'].map((owner) => newWorkflow(owner, { owner })));
    for (const incarnation of ['aaaa', 'bbbb']) await joined(incarnation);
    const { executors: _, ...rest } = freeOf() as Extract<FreeWork, { executors: unknown }>;
    const byId: FreeWork = { ...rest, live: ['self'], dead: ['aaaa'], workflowIds: ['bbbb.1'] };
    expect(await putBack({ free: byId })).toEqual([]);
    const free = freeOf({ live: ['self'], dead: ['aaaa'] });
    expect(await idsOf(store.storage.takeovers.left(free))).toHaveLength(1);
    expect(await idsOf(putBack({ free }))).toEqual(['aaaa.1', 'cccc.1']);
  });

  it('take nothing from an executor that sent a heartbeat after it was considered dead', async () => {
    await insert([newWorkflow('a', { owner: 'dddd.1' })]);
    await joined('dddd');
    const free = (beats: number | null) => freeOf({ executors: [{ ...under('here', 'dddd'), beats }] });
    await store.storage.executors.beat('dddd');
    expect(await putBack({ free: free(1) })).toEqual([]);
    expect(
      await store.storage.takeovers.cancel(
        newTakeover({ free: free(1), decisions: [fate({ exceeded: 'x', maxAttempts: 0 })] }),
      ),
    ).toEqual([]);
    expect(await idsOf(putBack({ free: free(2) }))).toEqual(['a']);
  });

  it('take single workflows by their ID, unless a live executor owns them', async () => {
    await insert(['a', 'b', 'c'].map((id) => newWorkflow(id, { owner: `${id.repeat(4)}.1` })));
    const { executors: _, ...rest } = freeOf() as Extract<FreeWork, { executors: unknown }>;
    const free: FreeWork = { ...rest, live: ['bbbb'], workflowIds: ['a', 'b', 'nowhere'] };
    expect(await idsOf(putBack({ free }))).toEqual(['a']);
    expect(await idsOf(store.storage.takeovers.left(free))).toEqual([]);
  });

  it('skip ended work, work that this process cannot run, other versions and other apps', async () => {
    await start(store, 'ended', 'of no app', 'class');
    await store.storage.workflows.finishMany([finished('ended')]);
    await insert([newWorkflow('version', { version: 'v0' }), newWorkflow('unknown', { name: 'unknown' })]);
    await insert([newWorkflow('app')], { ...writer, appName: 'other' });
    const table = store.table('workflow_status');
    await store.sql(`update ${table} set application_name = null where workflow_uuid = 'of no app'`);
    await store.sql(`update ${table} set class_name = 'Greeter' where workflow_uuid = 'class'`);
    expect(await idsOf(putBack())).toEqual(['of no app']);
    expect(await putBack({ decisions: [] })).toEqual([]);
    expect(await putBack({ free: freeOf({ executors: [] }) })).toEqual([]);
    expect((await store.storage.workflows.get(['version']))[0]).toMatchObject({ attempts: 1, status: 'PENDING' });
  });

  it('put work of a queue back on that queue, at its place and with its first start time', async () => {
    const { workflows } = store.storage;
    await start(store, 'a');
    await workflows.release({ owned: [{ workflowId: 'a', owner: 'owner of a' }], queueName: 'q', now: 3000 });
    await dequeue(store.storage, { ...newClaim({ owner: 'dying', now: 3500 }), queueName: 'q' });
    const free = freeOf({ executors: [under('claimer')] });
    expect(await putBack({ free })).toMatchObject([{ status: 'ENQUEUED', queueName: 'q' }]);
    expect(await dequeue(store.storage, { ...newClaim({ now: 9000 }), queueName: 'q' })).toMatchObject([
      { attempts: 2 },
    ]);
    const filter = { appName: 'app', limit: 10 };
    expect(await store.storage.takeovers.incomplete(filter)).toMatchObject([{ workflowId: 'a', startedAt: 1000 }]);
    await workflows.cancel({ workflowIds: ['a'], reason: null, now: 9500 });
    await workflows.resume({ workflowIds: ['a'], queueName: 'q', now: 9600 });
    await dequeue(store.storage, { ...newClaim({ now: 9700 }), queueName: 'q' });
    expect(await store.storage.takeovers.incomplete(filter)).toMatchObject([{ startedAt: 9700 }]);
  });

  it('stall work that must not be resumed, with the reason', async () => {
    await start(store, 'a');
    expect(await putBack({ decisions: [fate({ stallReason: 'ask first' })] })).toMatchObject([{ status: 'STALLED' }]);
    const aside = { status: 'STALLED', statusReason: 'ask first', executorId: 'here', attempts: 1, completedAt: 4000 };
    expect(await store.storage.workflows.get(['a'])).toMatchObject([aside]);
    const resumed = await store.storage.workflows.resume({ workflowIds: ['a'], queueName: 'q', now: 5000 });
    expect(resumed).toEqual([{ workflowId: 'a', queueName: 'q' }]);
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ status: 'ENQUEUED', statusReason: null }]);
  });

  it('do not change work that waits for an operator', async () => {
    await start(store, 'a');
    const decisions = [fate({ resumes: false })];
    expect(await putBack({ decisions })).toEqual([]);
    expect(await store.storage.takeovers.cancel(newTakeover({ decisions }))).toEqual([]);
    expect(await statuses(store)).toEqual({ a: 'PENDING' });
  });

  it('cancel work that is too old, resumable or not, with its children and the reason', async () => {
    await insert([newWorkflow('old', { createdAt: 1000 }), newWorkflow('young', { createdAt: 2000 })]);
    const children = [newChild('child', 'old'), newChild('detached', 'old', { detached: true })];
    await store.storage.workflows.insertChildren({ ...writer, executorId: 'there' }, children);
    const decisions = [fate({ tooOld: { startedBefore: 2000, reason: 'too old' }, resumes: false })];
    const cancelled = await store.storage.takeovers.cancel(newTakeover({ decisions }));
    expect(cancelled.map(({ workflowId, reason }) => `${workflowId}: ${reason}`).sort()).toEqual([
      'child: too old',
      'old: too old',
    ]);
    const ended = { old: 'CANCELLED', child: 'CANCELLED' };
    expect(await statuses(store)).toEqual({ ...ended, young: 'PENDING', detached: 'PENDING' });
    expect(await store.storage.workflows.get(['old'])).toMatchObject([{ statusReason: 'too old', completedAt: 4000 }]);
    expect(await putBack({ decisions: [fate({ tooOld: { startedBefore: 2001, reason: 'too old' } })] })).toEqual([]);
  });

  it('cancel or give up work that has used all its attempts, and count one attempt more', async () => {
    await start(store, 'a', 'b');
    await store.sql(`update ${store.table('workflow_status')} set recovery_attempts = 2 where workflow_uuid = 'a'`);
    const decisions = [fate({ maxAttempts: 1, exceeded: 'enough' })];
    expect(await idsOf(store.storage.takeovers.cancel(newTakeover({ decisions, limit: 1 })))).toEqual(['a']);
    expect(await store.storage.takeovers.cancel(newTakeover({ decisions }))).toEqual([]);
    const dead = { status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', attempts: 2 };
    expect(await putBack({ decisions: [fate({ maxAttempts: 0 })] })).toMatchObject([{ workflowId: 'b', ...dead }]);
    expect(await store.storage.workflows.get(['b'])).toMatchObject([{ ...dead, completedAt: 4000, queueName: null }]);
    expect(await dequeue(store.storage, { ...newClaim(), queueName: internalQueue })).toEqual([]);
  });

  it('take no more than the limit at once, and everything in the end', async () => {
    await start(store, ...Array.from({ length: 30 }, (_, i) => `w${i}`));
    expect(await putBack({ limit: 3 })).toHaveLength(3);
    expect(await putBack({ limit: 100 })).toHaveLength(27);
    expect(await putBack()).toEqual([]);
  });

  if (store.backend === 'postgres') {
    it('take no more than the limit under any query plan', async () => {
      await start(store, ...Array.from({ length: 30 }, (_, i) => `w${i}`));
      for (const way of ['hashjoin', 'mergejoin', 'hashagg', 'sort', 'material', 'memoize']) {
        await store.sql(`alter database ${new URL(store.url).pathname.slice(1)} set enable_${way} = off`);
      }
      expect(await putBack({ limit: 3 }, await store.another())).toHaveLength(3);
    });
  }

  it('take each workflow once when ten processes sweep at once', async () => {
    const ids = Array.from({ length: 200 }, (_, i) => `w${i}`);
    await start(store, ...ids);
    const other = await store.another();
    const sweeper = async (_: unknown, i: number): Promise<TakenOver[]> => {
      const mine: TakenOver[] = [];
      for (let empty = 0; empty < 50; ) {
        const page = await putBack({ limit: 7 }, i % 2 ? other : store.storage);
        if (page.length === 0) empty++;
        mine.push(...page);
        if ((await store.storage.takeovers.left(freeOf())).length === 0) break;
      }
      return mine;
    };
    const taken = (await Promise.all(Array.from({ length: 10 }, sweeper))).flat();
    expect(taken.map((row) => row.workflowId).sort()).toEqual([...ids].sort());
    const again = await dequeue(store.storage, { ...newClaim({ limit: 500 }), queueName: internalQueue });
    expect(again.every(({ attempts }) => attempts === 2)).toBe(true);
    expect(again).toHaveLength(200);
  });

  it('change nothing for an outdated list of candidates', async () => {
    await insert([newWorkflow('a', { owner: 'aaaa.1' })]);
    const free = freeOf({ executors: [under('here', 'aaaa')] });
    await putBack({ free });
    await dequeue(store.storage, { ...newClaim({ owner: 'bbbb.1', writer }), queueName: internalQueue });
    expect(await putBack({ free })).toEqual([]);
    const decisions = [fate({ tooOld: { startedBefore: 9999, reason: 'too old' } })];
    expect(await store.storage.takeovers.cancel(newTakeover({ free, decisions }))).toEqual([]);
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ owner: 'bbbb.1', status: 'PENDING' }]);
  });

  it('list the owners, workflows and versions of the work', async () => {
    const { takeovers } = store.storage;
    await insert([newWorkflow('b'), newWorkflow('a'), newWorkflow('c', { name: 'charge' })]);
    await insert([newWorkflow('d', { version: 'v2' })], { ...writer, executorId: 'there' });
    await insert([newWorkflow('e')], { ...writer, executorId: 'else', appName: 'other' });
    const free = freeOf({ executors: ['here', 'there', 'else'].map((id) => under(id)) });
    expect(new Set(await takeovers.left(free))).toEqual(
      new Set([
        { ...plainKey('greet'), workflowId: 'a', count: 2 },
        { ...plainKey('charge'), workflowId: 'c', count: 1 },
      ]),
    );
    expect(await takeovers.stranded(free)).toEqual([{ version: 'v2', count: 1 }]);
    expect(await takeovers.stranded(freeOf())).toEqual([]);
    expect(await takeovers.executors({ version: 'v1', appName: 'app' })).toEqual(['here']);
    expect(await takeovers.otherVersions({ version: 'v1', appName: 'app' })).toEqual([{ version: 'v2', count: 1 }]);
  });

  it('list their candidates one by one, oldest first, page by page', async () => {
    const { takeovers } = store.storage;
    await start(store, 'b', 'a', 'c');
    await insert([newWorkflow('d', { name: 'charge', version: 'v2' })], { ...writer, executorId: 'there' });
    await insert([newWorkflow('e')], { ...writer, appName: 'other' });
    const list = async (more: object) =>
      (await takeovers.incomplete({ appName: 'app', limit: 10, ...more })).map(({ workflowId }) => workflowId);
    expect(await list({})).toEqual(['b', 'd', 'a', 'c']);
    expect(await list({ limit: 2, offset: 1 })).toEqual(['d', 'a']);
    expect(await list({ after: { createdAt: 1000, workflowId: 'b' } })).toEqual(['d', 'a', 'c']);
    expect(await list({ executorIds: ['there'] })).toEqual(['d']);
    expect(await list({ workflowIds: ['a', 'd'], name: 'greet' })).toEqual(['a']);
    expect(await list({ appName: '' })).toContain('e');
  });

  it('list and count work handed over for a version, together with PENDING work or alone', async () => {
    const { takeovers, workflows } = store.storage;
    await start(store, 'a');
    const there = { ...writer, executorId: 'there' };
    await insert(
      ['b', 'c'].map((id) => newWorkflow(id, { version: 'v2', owner: `gone.${id}` })),
      there,
    );
    await insert([newWorkflow('d', { version: 'v3', owner: 'gone.d' })], there);
    const owned = ['b', 'c', 'd'].map((workflowId) => ({ workflowId, owner: `gone.${workflowId}` }));
    await workflows.release({ owned, queueName: internalQueue, now: 5000 });
    const list = async (more: object) =>
      (await takeovers.incomplete({ appName: 'app', limit: 10, ...more })).map(({ workflowId }) => workflowId);
    expect(await list({})).toEqual(['a']);
    expect((await list({ handedOver: { butFor: ['v1', 'v3'] } })).sort()).toEqual(['a', 'b', 'c']);
    expect((await list({ handedOver: { butFor: ['v2'], only: true } })).sort()).toEqual(['d']);
    expect(await list({ handedOver: { butFor: [] }, workflowIds: ['c'] })).toEqual(['c']);
    expect(await list({ handedOver: { butFor: [], only: true }, appName: 'other' })).toEqual([]);
    expect(await takeovers.otherVersions({ version: 'v1', appName: 'app' })).toEqual([
      { version: 'v2', count: 2 },
      { version: 'v3', count: 1 },
    ]);
  });

  it('list the unfinished workflows that would be cancelled too', async () => {
    const { takeovers, workflows } = store.storage;
    await start(store, 'root');
    const child = (id: string, parent: string, detached = false) =>
      workflows.insertChildren(writer, [
        { ...newWorkflow(id), parentWorkflowId: parent, parentOwner: newWorkflow(parent).owner, detached, ...first },
      ]);
    await child('child', 'root');
    await child('detached', 'root', true);
    await child('grandchild', 'child');
    await child('of detached', 'detached');
    const found = await takeovers.descendants(['root', 'no such']);
    expect(found.map(({ workflowId, root }) => [workflowId, root]).sort()).toEqual([
      ['child', 'root'],
      ['grandchild', 'root'],
    ]);
  });

  it('list the PENDING work under the tokens of one process, and nothing else', async () => {
    await insert([
      newWorkflow('a', { owner: 'me.0' }),
      newWorkflow('b', { owner: 'me.1' }),
      newWorkflow('ended', { owner: 'me.2' }),
      newWorkflow('other process', { owner: 'mee.0' }),
      newWorkflow('other version', { owner: 'me.3', version: 'v0' }),
    ]);
    await insert([newWorkflow('other executor', { owner: 'me.4' })], { ...writer, executorId: 'another' });
    await store.storage.workflows.finishMany([finished('ended', { owner: 'me.2' })]);
    const { version } = newWorkflow('any');
    const of = { executorId: writer.executorId, version, incarnation: 'me' };
    const found = await store.storage.takeovers.pendingUnder(of);
    expect(found.sort((a, b) => a.owner.localeCompare(b.owner))).toEqual([
      { workflowId: 'a', owner: 'me.0' },
      { workflowId: 'b', owner: 'me.1' },
    ]);
  });
});
