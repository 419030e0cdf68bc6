import { expect, it } from 'vitest';
import { dequeue, describeStorage, finished, newClaim, newStep, start, takeOver } from './contract-support.js';
import { effectful, message, said } from './messaging-support.js';

describeStorage('messages', (store) => {
  const unread = async (workflowId: string, topic = 't', most = 10): Promise<string[]> =>
    (await store.storage.messages.waiting([{ workflowId, topic, most }])).map((each) => each.messageId);

  it('keep all their fields', async () => {
    await start(store, 'a');
    const one = message('m1', 'a', { topic: 'x', value: 'text "with" \\ all', serialization: 'portable_json' });
    expect(await store.storage.messages.send([one])).toEqual(new Set(['m1']));
    expect(await store.storage.messages.list('a')).toEqual([
      { topic: 'x', value: 'text "with" \\ all', serialization: 'portable_json', sentAt: 1500, consumed: false },
    ]);
    expect(await store.storage.messages.waiting([{ workflowId: 'a', topic: 'x', most: 1 }])).toEqual([
      { workflowId: 'a', topic: 'x', messageId: 'm1', value: one.value, serialization: 'portable_json' },
    ]);
  });

  it('report which are stored, now or by an earlier send; only those to a missing recipient fail', async () => {
    await start(store, 'a', 'b');
    const { messages } = store.storage;
    await messages.send([message('m1', 'a', { value: 'first' })]);
    const rows = [
      message('m1', 'a', { value: 'again' }),
      message('m2', 'nowhere'),
      message('m3', 'b'),
      message('m3', 'b', { value: 'twice in a batch' }),
    ];
    expect(await messages.send(rows)).toEqual(new Set(['m1', 'm3']));
    expect((await messages.list('a')).map((each) => each.value)).toEqual(['first']);
    expect((await messages.list('b')).map((each) => each.value)).toEqual(['"m3"']);
    expect(await messages.send([])).toEqual(new Set());
  });

  it('report the number and the bytes of the unreceived ones in an inbox', async () => {
    await start(store, 'a', 'b');
    const { messages, steps } = store.storage;
    const standing = (topic: string) => messages.inboxState({ workflowId: 'a', topic });
    await messages.send([message('m1', 'a', { value: 'ü' }), message('m2', 'a', { value: 'x'.repeat(100_000) })]);
    await messages.send([message('m3', 'a', { topic: 'x', value: '1' }), message('m4', 'b', { value: '1' })]);
    expect(await standing('t')).toEqual({ waiting: 2, bytes: 100_002 });
    expect(await standing('x')).toEqual({ waiting: 1, bytes: 1 });
    expect(await standing('y')).toEqual({ waiting: 0, bytes: 0 });
    await steps.recordEffects('app', [effectful('a', 0, [{ kind: 'consume', messageId: 'm2' }])]);
    expect(await standing('t')).toEqual({ waiting: 1, bytes: 2 });
    expect(await messages.stored(['m1', 'm2', 'm9'])).toEqual(new Set(['m1', 'm2']));
  });

  it('can be sent to workflows in any state', async () => {
    await start(store, 'ended', 'cancelled');
    await store.storage.workflows.finishMany([finished('ended')]);
    await store.storage.workflows.cancel({ workflowIds: ['cancelled'], reason: null, now: 2000 });
    const rows = ['ended', 'cancelled'].map((id) => message(`to ${id}`, id));
    expect(await store.storage.messages.send(rows)).toEqual(new Set(['to ended', 'to cancelled']));
  });

  it('are sent all or none, and a repeated send gives the same answer', async () => {
    await start(store, 'a', 'b');
    const { messages } = store.storage;
    const rows = [message('m1', 'a'), message('m2', 'b'), message('m3', 'a')];
    expect(await messages.sendAll([...rows, message('m4', 'nowhere')])).toBe(false);
    expect((await said(store)).messages).toEqual([]);
    expect(await messages.sendAll(rows)).toBe(true);
    expect(await messages.sendAll(rows)).toBe(true);
    expect((await said(store)).messages).toEqual(['m1 unread', 'm2 unread', 'm3 unread']);
    expect(await unread('a')).toEqual(['m1', 'm3']);
  });

  it('are returned oldest first for each inbox, in the order of sending, up to the limit', async () => {
    await start(store, 'a', 'b', 'c');
    const { messages } = store.storage;
    // Later instants and greater IDs come first: neither decides the order.
    await messages.send([5, 4].map((n) => message(`m${n}`, 'a', { sentAt: 1000 + n })));
    await messages.sendAll([3, 2].map((n) => message(`m${n}`, 'a', { sentAt: 1000 + n })));
    const steps = [effectful('b', 0, [{ kind: 'message', ...message('m1', 'a', { sentAt: 1 }) }])];
    await store.storage.steps.recordEffects('app', steps);
    await messages.send([message('o1', 'a', { topic: 'other' }), message('n1', 'b')]);
    expect(await unread('a')).toEqual(['m5', 'm4', 'm3', 'm2', 'm1']);
    expect(await unread('a', 't', 2)).toEqual(['m5', 'm4']);
    const inboxes = [
      { workflowId: 'a', topic: 't', most: 1 },
      { workflowId: 'a', topic: 'other', most: 5 },
      { workflowId: 'b', topic: 't', most: 5 },
      { workflowId: 'c', topic: 't', most: 5 },
      { workflowId: 'nowhere', topic: 't', most: 5 },
    ];
    const found = await messages.waiting(inboxes);
    expect(found.map((each) => each.messageId).sort()).toEqual(['m5', 'n1', 'o1']);
    expect((await messages.list('a')).map((each) => each.value)).toEqual(
      ['m5', 'm4', 'm3', 'm2', 'm1', 'o1'].map((id) => `"${id}"`),
    );
    expect(await messages.waiting([])).toEqual([]);
  });

  it('keep the order of a batch of 1,000 to many recipients', async () => {
    const ids = Array.from({ length: 20 }, (_, i) => `w${i}`);
    await start(store, ...ids);
    const rows = Array.from({ length: 1_000 }, (_, i) => message(`${(i * 7919) % 1_000}`, ids[i % 20] ?? ''));
    await store.storage.messages.send(rows);
    for (const id of ids) {
      const own = rows.filter((row) => row.destination === id).map((row) => row.messageId);
      expect(await unread(id, 't', 100)).toEqual(own);
    }
  });

  it('are not returned after they were consumed, but are kept', async () => {
    await start(store, 'a');
    const { messages, steps } = store.storage;
    await messages.send(['m1', 'm2'].map((id) => message(id, 'a')));
    await steps.recordEffects('app', [effectful('a', 0, [{ kind: 'consume', messageId: 'm1' }])]);
    expect(await unread('a')).toEqual(['m2']);
    expect((await messages.list('a')).map((each) => each.consumed)).toEqual([true, false]);
  });

  it('are deleted with their workflow', async () => {
    await start(store, 'a');
    await store.storage.messages.send([message('m1', 'a')]);
    await store.sql(`delete from ${store.table('workflow_status')}`);
    expect((await said(store)).messages).toEqual([]);
  });
});

describeStorage(
  'uncommitted messages to a workflow',
  (store) => {
    /** Writes a message in a transaction that has not committed. */
    async function underWay(workflowId: string): Promise<() => Promise<unknown>> {
      await store.sql('begin');
      const columns = 'message_uuid, destination_uuid, topic, message';
      const values = `'under way', '${workflowId}', 't', 'x'`;
      await store.sql(`insert into ${store.table('notifications')} (${columns}) values (${values})`);
      return () => store.sql('rollback');
    }

    it('do not prevent a claim of the workflow from its queue', async () => {
      await start(store, 'a');
      const owned = [{ workflowId: 'a', owner: 'owner of a' }];
      await store.storage.workflows.release({ owned, queueName: 'q', now: 2000 });
      const end = await underWay('a');
      const claimed = await dequeue(store.storage, { ...newClaim(), queueName: 'q' });
      await end();
      expect(claimed.map((each) => each.workflowId)).toEqual(['a']);
    });

    it('do not delay its steps, its recovery, its cancellation or its end', async () => {
      await start(store, 'a', 'b', 'c', 'd');
      const { steps, workflows } = store.storage;
      const end = await underWay('a');
      await steps.recordMany('app', [newStep('a', 0)]);
      expect(await takeOver(store.storage, newClaim({ owner: 'fresh' }))).toHaveLength(4);
      await steps.recordEffects('app', [effectful('a', 1, [], { owner: 'fresh' })]);
      expect(await workflows.finishMany([finished('a', { owner: 'fresh' })])).toEqual(new Set(['a']));
      await end();
      const endOfOther = await underWay('b');
      await workflows.cancel({ workflowIds: ['b'], reason: null, now: 3000 });
      await endOfOther();
      expect(await workflows.get(['b'])).toMatchObject([{ status: 'CANCELLED' }]);
    });
  },
  ['postgres'],
);
