import { expect, it } from 'vitest';
import { type NewStep, stepKey } from '../../src/storage/contract/storage.js';
import { describeStorage, finished, first, newClaim, newStep, start, takeOver } from './contract-support.js';

describeStorage('steps', (store) => {
  const record = (...rows: readonly NewStep[]) => store.storage.steps.recordMany('app', rows);
  const begun = (id: string, n: number) =>
    newStep(id, n, { name: 'DBOS.sleep', output: '9000', completedAt: 9000, completionSeq: null });
  const lose = (owner: string) => takeOver(store.storage, newClaim({ owner }));

  it('keep all their fields', async () => {
    await start(store, 'a');
    const rows = [
      newStep('a', 0),
      newStep('a', 1, { output: null, error: '"no"' }),
      newStep('a', 2, { output: null, serialization: null, childWorkflowId: 'a-2' }),
      begun('a', 3),
    ];
    expect(await record(...rows)).toBe(rows.length);
    const history = await store.storage.steps.history(['a']);
    expect(new Set(history.map((step) => ({ ...step, ...first })))).toEqual(
      new Set(rows.map(({ owner: _, ...recorded }) => recorded)),
    );
  });

  it('are read as histories of several workflows, and none for an empty list', async () => {
    await start(store, 'a', 'b', 'c');
    await record(newStep('a', 0), newStep('b', 0), newStep('b', 1), newStep('c', 0));
    const { steps } = store.storage;
    expect((await steps.history(['a', 'b', 'nowhere'])).map(stepKey).sort()).toEqual(['0:a', '0:b', '1:b']);
    expect(await steps.history([])).toEqual([]);
    expect(await steps.recordMany('app', [])).toBe(0);
    expect(await steps.completeMany([])).toBe(0);
    expect(await steps.states([])).toEqual([]);
  });

  it('change and report nothing for a former owner; the rest of the batch is written', async () => {
    await start(store, 'a', 'b', 'ended');
    await lose('fresh');
    await store.storage.workflows.finishMany([finished('ended', { owner: 'fresh' })]);
    const rows = [
      newStep('a', 0),
      newStep('b', 0, { owner: 'fresh' }),
      newStep('ended', 0, { owner: 'fresh' }),
      newStep('nowhere', 0),
    ];
    expect(await record(...rows)).toBe(1);
    expect((await store.storage.steps.history(['a', 'b', 'ended', 'nowhere'])).map(stepKey)).toEqual(['0:b']);
  });

  it('change and report nothing after a cancel', async () => {
    await start(store, 'a');
    await record(begun('a', 0));
    await store.storage.workflows.cancel({ workflowIds: ['a'], reason: null, now: 2000 });
    expect(await record(newStep('a', 1))).toBe(0);
    const end = { workflowId: 'a', owner: 'owner of a', stepNumber: 0, completedAt: 9500, completionSeq: 0, ...first };
    expect(await store.storage.steps.completeMany([end])).toBe(0);
    expect(await store.storage.steps.history(['a'])).toMatchObject([{ stepNumber: 0, completionSeq: null }]);
  });

  it('keep their first record', async () => {
    await start(store, 'a');
    await record(newStep('a', 0, { output: 'first' }));
    const rows = [newStep('a', 0, { output: 'second' }), newStep('a', 1)];
    expect(await record(...rows)).toBe(1);
    const twice = [newStep('a', 2, { output: 'x' }), newStep('a', 2, { output: 'y' })];
    expect(await record(...twice)).toBe(1);
    const outputs = (await store.storage.steps.history(['a'])).map((step) => `${step.stepNumber} ${step.output}`);
    expect(outputs.sort()).toEqual(['0 first', '1 "done"', expect.stringMatching(/^2 [xy]$/)]);
  });

  it('get an end only if they have begun and not ended', async () => {
    await start(store, 'a', 'b');
    await record(begun('a', 0), newStep('a', 1), begun('b', 0));
    const end = { owner: 'owner of a', workflowId: 'a', completedAt: 9500, completionSeq: 7, ...first };
    const ends = [
      { ...end, stepNumber: 0 },
      { ...end, stepNumber: 1 },
      { ...end, stepNumber: 2 },
      { ...end, stepNumber: 0, workflowId: 'b', owner: 'former' },
    ];
    expect(await store.storage.steps.completeMany(ends)).toBe(1);
    expect(await store.storage.steps.completeMany(ends)).toBe(0);
    const history = new Map((await store.storage.steps.history(['a', 'b'])).map((step) => [stepKey(step), step]));
    expect(history.get('0:a')).toMatchObject({ completionSeq: 7, completedAt: 9500, output: '9000', startedAt: 1100 });
    expect(history.get('1:a')).toMatchObject({ completionSeq: 1, completedAt: 1200 });
    expect(history.get('0:b')).toMatchObject({ completionSeq: null, completedAt: 9000 });
    expect(history.size).toBe(3);
  });

  it('are read with their state and the owner of their workflow', async () => {
    await start(store, 'a', 'b');
    await record(newStep('a', 0), begun('a', 1));
    await store.storage.workflows.finishMany([finished('b')]);
    const asked = [
      { workflowId: 'a', stepNumber: 0 },
      { workflowId: 'a', stepNumber: 1 },
      { workflowId: 'a', stepNumber: 2 },
      { workflowId: 'b', stepNumber: 0 },
      { workflowId: 'nowhere', stepNumber: 0 },
    ];
    const a = { workflowId: 'a', owner: 'owner of a', status: 'PENDING' };
    expect(new Set(await store.storage.steps.states(asked))).toEqual(
      new Set([
        { ...a, stepNumber: 0, recorded: true, failed: false, completionSeq: 0 },
        { ...a, stepNumber: 1, recorded: true, failed: false, completionSeq: null },
        { ...a, stepNumber: 2, recorded: false, failed: false, completionSeq: null },
        {
          workflowId: 'b',
          owner: 'owner of b',
          status: 'SUCCESS',
          stepNumber: 0,
          recorded: false,
          failed: false,
          completionSeq: null,
        },
      ]),
    );
  });
});
