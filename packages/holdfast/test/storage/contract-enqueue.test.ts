import { describe, expect, it } from 'vitest';
import { internalQueue } from '../../src/model/queues.js';
import { plainKey } from '../../src/model/workflow-key.js';
import type { EnqueuedWorkflow, Storage } from '../../src/storage/contract/storage.js';
import { describeStorage, finished, newClaim, type Store, start, statuses, takeOver } from './contract-support.js';
import { enqueued, inOrder, register, take, withQueue } from './queue-support.js';

const everything: Partial<EnqueuedWorkflow> = {
  inputs: '["Ada"]',
  version: null,
  appName: null,
  createdAt: 1234,
  timeoutMs: 60_000,
  deadlineAt: 99_000,
  user: 'ada',
  roles: '["admin"]',
  attributes: '{"tenant":"acme","n":[1,null]}',
  priority: 7,
  dedupId: 'once',
  partition: 'acme',
  scheduleName: 'nightly',
};

describeStorage('enqueueing', (store) => {
  withQueue(store);
  const many = (...rows: EnqueuedWorkflow[]) => store.storage.queues.enqueueMany(rows);
  const all = (...rows: EnqueuedWorkflow[]) => store.storage.queues.enqueueAll(rows);
  const seqs = async () =>
    (
      await store.sql(`select workflow_uuid from ${store.table('workflow_status')} order by enqueue_seq, workflow_uuid`)
    ).map((row) => row.workflow_uuid);

  describe.each(['enqueueMany', 'enqueueAll'] as const)('%s', (how) => {
    const enqueue = (...rows: EnqueuedWorkflow[]) => store.storage.queues[how](rows);

    it('stores work without an owner and never tried, as waiting, or as delayed if it has a time', async () => {
      const rows = [enqueued('a', everything), enqueued('b', { delayUntil: 5000 })];
      expect(await enqueue(...rows)).toEqual(new Set(['a', 'b']));
      const common = { owner: null, executorId: null, attempts: 0, startedAt: null, completedAt: null, name: 'greet' };
      const { attributes, ...given } = everything;
      const a = { ...common, ...given, workflowId: 'a', status: 'ENQUEUED', updatedAt: 1234, delayUntil: null };
      const [stored] = await store.storage.workflows.get(['a']);
      expect(stored).toMatchObject({ ...a, queueName: 'q', parentWorkflowId: null });
      expect(JSON.parse(String(stored?.attributes))).toEqual(JSON.parse(String(attributes)));
      const b = { ...common, status: 'DELAYED', delayUntil: 5000, version: 'v1', appName: 'app', attributes: null };
      expect(await store.storage.workflows.get(['b'])).toMatchObject([b]);
    });

    it('numbers work in the given order, although rows are inserted in the order of their IDs', async () => {
      await enqueue(enqueued('m'), enqueued('z'), enqueued('b'), enqueued('a'));
      await enqueue(enqueued('c'), enqueued('A'), enqueued('é'), enqueued('_'));
      const order = ['m', 'z', 'b', 'a', 'c', 'A', 'é', '_'];
      expect(await seqs()).toEqual(order);
      expect(await inOrder(store.storage)).toEqual(order);
    });

    it('accepts the internal queue, which is never registered', async () => {
      expect(await enqueue(enqueued('a', { queueName: internalQueue }))).toEqual(new Set(['a']));
    });

    it('does not change a workflow that already has the ID', async () => {
      await start(store, 'a');
      const [before] = await store.storage.workflows.get(['a']);
      expect(await enqueue(enqueued('a', everything))).toEqual(new Set());
      expect(await store.storage.workflows.get(['a'])).toEqual([before]);
    });

    it('accepts a deduplication ID that is in use on another queue', async () => {
      await register(store.storage, 'other');
      expect(await enqueue(enqueued('a', { dedupId: 'd' }))).toEqual(new Set(['a']));
      expect(await enqueue(enqueued('b', { dedupId: 'd', queueName: 'other' }))).toEqual(new Set(['b']));
    });

    it('does nothing for an empty batch', async () => {
      expect(await enqueue()).toEqual(new Set());
    });
  });

  it('one by one: refuses a taken ID, a held deduplication ID and a missing queue, and stores the rest', async () => {
    await many(enqueued('taken', { name: 'other' }), enqueued('holder', { dedupId: 'd' }));
    const rows = [
      enqueued('taken'),
      enqueued('twin', { dedupId: 'd' }),
      enqueued('lost', { queueName: 'nowhere' }),
      enqueued('fine', { dedupId: 'e' }),
      enqueued('plain'),
    ];
    expect(await many(...rows)).toEqual(new Set(['fine', 'plain']));
    expect(await inOrder(store.storage, { runnable: runnable('greet', 'other') })).toEqual([
      'taken',
      'holder',
      'fine',
      'plain',
    ]);
  });

  it('one by one: stores one of several workflows with the same deduplication ID in one statement', async () => {
    const rows = Array.from({ length: 10 }, (_, i) => enqueued(`w${i}`, { dedupId: 'd' }));
    expect((await many(...rows)).size).toBe(1);
  });

  it('all or none: counts existing rows of the same name as stored, also with their deduplication ID', async () => {
    await many(enqueued('a', { dedupId: 'd' }));
    expect(await all(enqueued('b'), enqueued('a', { dedupId: 'd' }), enqueued('c'))).toEqual(new Set(['b', 'c']));
    expect(await inOrder(store.storage)).toEqual(['a', 'b', 'c']);
  });

  it('all or none: changes nothing when the whole batch is repeated after a lost answer', async () => {
    const rows = [enqueued('b', { dedupId: 'x' }), enqueued('a', { dedupId: 'y' }), enqueued('c')];
    expect((await all(...rows)).size).toBe(3);
    const before = await store.storage.workflows.list({});
    expect(await all(...rows)).toEqual(new Set());
    expect(await store.storage.workflows.list({})).toEqual(before);
  });

  it.each<[string, EnqueuedWorkflow]>([
    ['an ID that another workflow has', enqueued('taken')],
    ['a queue that does not exist', enqueued('x', { queueName: 'nowhere' })],
  ])('all or none: stores nothing because of %s', async (_, culprit) => {
    await many(enqueued('taken', { name: 'other' }));
    expect(await all(enqueued('a'), culprit, enqueued('b'))).toEqual(new Set());
    expect(await statuses(store)).toEqual({ taken: 'ENQUEUED' });
  });

  it('all or none: refuses everything if a deduplication ID is held or given twice', async () => {
    await many(enqueued('holder', { dedupId: 'd' }));
    for (const given of [['d'], ['e', 'e']]) {
      const culprits = given.map((dedupId, i) => enqueued(`x${i}`, { dedupId }));
      const refusal = await all(enqueued('a'), ...culprits, enqueued('z')).catch((error) => error);
      expect(refusal).toBeInstanceOf(Error);
      expect(store.storage.classify(refusal)).toBe('refused');
      expect(await statuses(store)).toEqual({ holder: 'ENQUEUED' });
    }
  });

  it('all or none: stores thousands in one statement, in their order', async () => {
    const rows = Array.from({ length: 5000 }, (_, i) => enqueued(`w${(i * 7919) % 5000}`, { createdAt: 9000 - i }));
    expect((await all(...rows)).size).toBe(5000);
    expect(await seqs()).toEqual(rows.map((row) => row.workflowId));
    const [first, second] = await inPages(store.storage, rows.length, 2);
    expect(first).toEqual(rows.slice(0, 2500).map((row) => row.workflowId));
    expect(second).toEqual(rows.slice(2500).map((row) => row.workflowId));
  });
});

describeStorage('enqueueing a child', (store) => {
  withQueue(store);
  const child = (id: string, more: Partial<EnqueuedWorkflow> = {}) =>
    enqueued(id, { parentWorkflowId: 'p', parentOwner: 'owner of p', ...more });

  it('stores the child while its parent keeps its owner, and records if the child is detached', async () => {
    await start(store, 'p');
    const rows = [child('b', { detached: true }), child('a'), enqueued('no child')];
    expect(await store.storage.queues.enqueueMany(rows)).toEqual(new Set(['a', 'b', 'no child']));
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ parentWorkflowId: 'p', status: 'ENQUEUED' }]);
    await store.storage.workflows.cancel({ workflowIds: ['p'], reason: null, now: 2000 });
    expect(await statuses(store)).toEqual({ p: 'CANCELLED', a: 'CANCELLED', b: 'ENQUEUED', 'no child': 'ENQUEUED' });
  });

  it('stores no child if its parent has ended or has another owner; the rest of the batch is stored', async () => {
    await start(store, 'p', 'ended');
    await store.storage.workflows.finishMany([finished('ended')]);
    const rows = [
      child('a', { parentOwner: 'somebody else' }),
      child('b', { parentWorkflowId: 'ended', parentOwner: 'owner of ended' }),
      child('c', { parentWorkflowId: 'nobody' }),
      child('d', { queueName: 'nowhere' }),
      child('fine'),
    ];
    expect(await store.storage.queues.enqueueMany(rows)).toEqual(new Set(['fine']));
  });
});

describeStorage('a deduplication ID', (store) => {
  withQueue(store);
  const enqueue = (id: string) => store.storage.queues.enqueueMany([enqueued(id, { dedupId: 'd' })]);
  const isFree = async () => (await enqueue('next')).size === 1;

  it('leads to the workflow that holds it', async () => {
    const method = { name: 'm', className: 'Shop', configName: 'de' };
    await register(store.storage, 'other');
    await enqueue('a');
    await store.storage.queues.enqueueMany([enqueued('b', { dedupId: 'e', queueName: 'other', ...method })]);
    const keys = [
      { queueName: 'q', dedupId: 'd' },
      { queueName: 'other', dedupId: 'e' },
      { queueName: 'other', dedupId: 'd' },
      { queueName: 'q', dedupId: 'free' },
    ];
    const held = await store.storage.queues.holders(keys);
    expect(held.sort((x, y) => (x.workflowId < y.workflowId ? -1 : 1))).toEqual([
      { queueName: 'q', dedupId: 'd', workflowId: 'a', ...plainKey('greet') },
      { queueName: 'other', dedupId: 'e', workflowId: 'b', ...method },
    ]);
    expect(await store.storage.queues.holders([])).toEqual([]);
  });

  it.each(Object.entries(endings))('is free again when its workflow %s', async (_, end) => {
    await enqueue('a');
    expect(await enqueue('too early')).toEqual(new Set());
    await end(store);
    expect(await isFree()).toBe(true);
  });

  it.each(Object.entries(continuations))('is still held while its workflow %s', async (_, goOn) => {
    await enqueue('a');
    await goOn(store);
    expect(await isFree()).toBe(false);
  });

  it('goes to one of 100 concurrent enqueues from several processes', async () => {
    const others = [store.storage, await store.another(), await store.another()];
    const rows = Array.from({ length: 100 }, (_, i) => enqueued(`w${i}`, { dedupId: 'd' }));
    const results = await Promise.all(
      rows.map((row, i) => (others[i % others.length] as Storage).queues.enqueueMany([row])),
    );
    expect(results.filter((created) => created.size === 1)).toHaveLength(1);
    expect(await store.storage.workflows.list({})).toHaveLength(1);
  });
});

type Happening = (store: Store) => Promise<unknown>;

const claimed: Happening = (store) => take(store.storage, 1);

/** All ways in which a workflow ends. */
const endings: Record<string, Happening> = {
  succeeds: async (store) => {
    await claimed(store);
    await store.storage.workflows.finishMany([finished('a', { owner: 'claim' })]);
  },
  fails: async (store) => {
    await claimed(store);
    await store.storage.workflows.finishMany([finished('a', { owner: 'claim', status: 'ERROR' })]);
  },
  'is cancelled while it waits': (store) =>
    store.storage.workflows.cancel({ workflowIds: ['a'], reason: null, now: 2000 }),
  'is cancelled while it runs': async (store) => {
    await claimed(store);
    await store.storage.workflows.cancel({ workflowIds: ['a'], reason: null, now: 2000 });
  },
  'is stalled': async (store) => {
    await claimed(store);
    const stalled = { workflowId: 'a', owner: 'claim', error: '{}', reason: 'mismatch', now: 2000 };
    expect(await store.storage.workflows.stall(stalled)).toBe(true);
  },
  'is given up': async (store) => {
    await store.sql(`update ${store.table('workflow_status')} set recovery_attempts = 101`);
    const [dead] = await take(store.storage, 1, { suspects: true });
    const gone = { status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' };
    expect(dead).toMatchObject(gone);
    expect(await store.storage.workflows.get([dead?.workflowId ?? ''])).toMatchObject([{ ...gone, dedupId: null }]);
  },
};

/** Changes that do not end a workflow. */
const continuations: Record<string, Happening> = {
  runs: claimed,
  'is handed over': async (store) => {
    await claimed(store);
    const owned = [{ workflowId: 'a', owner: 'claim' }];
    expect((await store.storage.workflows.release({ owned, queueName: 'q', now: 2000 })).size).toBe(1);
  },
  'is recovered': async (store) => {
    await claimed(store);
    expect(await takeOver(store.storage, { ...newClaim({ owner: 'second' }), executorIds: ['claimer'] })).toEqual([]);
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ status: 'ENQUEUED', dedupId: 'd' }]);
  },
};

function runnable(...names: string[]) {
  return names.map((name) => ({ name, maxRecoveryAttempts: 100 }));
}

/** The work that waits on `q`, sorted by its numbers and claimed in this many statements. */
async function inPages(storage: Storage, count: number, pages: number): Promise<string[][]> {
  const order = new Map<string, number>();
  const found: string[][] = [];
  for (const { workflowId } of await storage.workflows.list({ limit: count })) order.set(workflowId, order.size);
  for (let page = 0; page < pages; page++) {
    const rows = await take(storage, count / pages);
    // `list` sorts by age, and the workflow enqueued last is the oldest here.
    found.push(rows.map((row) => row.workflowId).sort((a, b) => (order.get(b) as number) - (order.get(a) as number)));
  }
  return found;
}
