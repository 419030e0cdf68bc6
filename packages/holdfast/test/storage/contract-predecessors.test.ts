import { describe, expect, it } from 'vitest';
import { type After, stepKey } from '../../src/storage/contract/storage.js';
import { describeStorage, finished, first, newChild, newStep, type Store, start, writer } from './contract-support.js';
import { effectful, sent, set } from './messaging-support.js';
import { enqueued } from './queue-support.js';

const after = (step: number, seq = step, also: object[] = []): After => ({
  afterStep: step,
  afterSeq: seq,
  afterAlso: also.length === 0 ? null : JSON.stringify(also),
});

const owner = 'owner of a';

/** Each write of an execution. A call resolves to true if the row was written with these predecessors. */
const writes: Record<string, (store: Store, named: After) => Promise<boolean>> = {
  'a step': async ({ storage }, named) => (await storage.steps.recordMany('app', [newStep('a', 5, named)])) > 0,
  'a step with effects': async ({ storage }, named) =>
    (await storage.steps.recordEffects('app', [effectful('a', 5, [set('k', '1')], named)])).size > 0,
  'the end of a sleep': async ({ storage }, named) => {
    await storage.steps.recordMany('app', [newStep('a', 5, { completionSeq: null })]);
    const end = { workflowId: 'a', owner, stepNumber: 5, completedAt: 1, completionSeq: 5, ...named };
    return (await storage.steps.completeMany([end])) > 0;
  },
  'an attempt': async ({ storage }, named) => {
    const change = { workflowId: 'a', owner, stepNumber: 5, token: 't', attempt: null, nextAt: null, at: 1 };
    return (await storage.steps.changeAttempts([{ ...change, ...named }])).size > 0;
  },
  'the start of a child': async ({ storage }, named) =>
    (await storage.workflows.insertChildren(writer, [newChild('c', 'a', named)])).size > 0,
  'a child on a queue': async ({ storage }, named) => {
    const row = enqueued('q', { queueName: '_dbos_internal_queue', parentWorkflowId: 'a', parentOwner: owner });
    return (await storage.queues.enqueueMany([{ ...row, ...named }])).size > 0;
  },
  'an outcome': async ({ storage }, named) =>
    (await storage.workflows.finishMany([finished('a', { ...named })])).size > 0,
  'a mark of rest': async ({ storage }, named) =>
    (await storage.workflows.markSuspended([{ workflowId: 'a', owner, ...named }])).size > 0,
};

describeStorage('a write that names its predecessors', (store) => {
  const record = (...steps: number[]) =>
    store.storage.steps.recordMany(
      'app',
      steps.map((n) => newStep('a', n, { completionSeq: n })),
    );

  describe.each(Object.entries(writes))('%s', (_, write) => {
    it('is written if they are recorded, or if it names none', async () => {
      await start(store, 'a');
      await record(0, 1, 2);
      expect(
        await write(
          store,
          after(2, 2, [
            { step: 0, seq: 0 },
            { step: 1, seq: 1 },
          ]),
        ),
      ).toBe(true);
    });

    it('is written without predecessors', async () => {
      await start(store, 'a');
      expect(await write(store, first)).toBe(true);
    });

    it.each([
      ['the last one is missing', after(3)],
      ['its place in the order differs', after(2, 7)],
      ['it has no place yet', after(4)],
      [
        'another one is missing',
        after(2, 2, [
          { step: 0, seq: 0 },
          { step: 3, seq: 3 },
        ]),
      ],
      ['it belongs to another workflow', after(9)],
    ])('is refused if %s', async (_case, named) => {
      await start(store, 'a', 'b');
      await record(0, 1, 2);
      await store.storage.steps.recordMany('app', [
        newStep('a', 4, { completionSeq: null }),
        newStep('b', 9, { completionSeq: 9 }),
      ]);
      expect(await write(store, named)).toBe(false);
      const ids = (await store.storage.workflows.list({})).map(({ workflowId, status }) => `${workflowId} ${status}`);
      expect(ids.sort()).toEqual(['a PENDING', 'b PENDING']);
    });
  });

  it('is checked row by row', async () => {
    await start(store, 'a', 'b');
    await record(0);
    const rows = [newStep('a', 1, after(0)), newStep('a', 2, after(7)), newStep('b', 0)];
    expect(await store.storage.steps.recordMany('app', rows)).toBe(2);
    expect((await store.storage.steps.history(['a', 'b'])).map(stepKey).sort()).toEqual(['0:a', '0:b', '1:a']);
  });

  it('records a child only if the child exists', async () => {
    await start(store, 'a');
    const named = (child: string): After => ({ ...first, afterAlso: JSON.stringify([{ child }]) });
    const row = newStep('a', 0, { childWorkflowId: 'c' });
    expect(await store.storage.steps.recordMany('app', [{ ...row, ...named('c') }])).toBe(0);
    await start(store, 'c');
    expect(await store.storage.steps.recordMany('app', [{ ...row, ...named('c') }])).toBe(1);
  });

  it('records a receipt only if the message exists', async () => {
    await start(store, 'a', 'b');
    const receipt = (n: number) => effectful('a', n, [{ kind: 'consume', messageId: 'm' }]);
    expect((await store.storage.steps.recordEffects('app', [receipt(0)])).size).toBe(0);
    await store.storage.steps.recordEffects('app', [effectful('b', 0, [sent('m', 'a')])]);
    expect((await store.storage.steps.recordEffects('app', [receipt(0)])).size).toBe(1);
  });
});
