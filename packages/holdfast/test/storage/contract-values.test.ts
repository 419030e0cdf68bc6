import { expect, it } from 'vitest';
import {
  dequeue,
  describeStorage,
  finished,
  first,
  idsOf,
  newClaim,
  newStep,
  newWorkflow,
  start,
  takeOver,
  writer,
} from './contract-support.js';

/** Texts that an incorrect encoding of arrays, JSON or SQL would change. */
const awkwardTexts = [
  '',
  ' ',
  'NULL',
  'null',
  '{',
  '}',
  '{}',
  ',',
  '"',
  '""',
  "'",
  "''; drop table workflow_status; --",
  '\\',
  '\\\\',
  '\\"',
  '\\N',
  '\\x41',
  '$1',
  '$$',
  '{"a","b",NULL}',
  '(1,2)',
  'line\nbreak\r\n\ttab',
  '\u0001\u001f\u007f',
  'ünïcödé',
  '中文 עברית',
  '👩‍👩‍👧 🏳️‍🌈',
  '\u2028\u2029\ufeff\uffff',
  'e\u0301 is not \u00e9',
];

describeStorage('storage of unusual values', (store) => {
  it('returns every text unchanged, in every column and as every element of a batch', async () => {
    const { workflows, steps } = store.storage;
    const id = (i: number): string => `w${i}`;
    const rows = awkwardTexts.map((text, i) => newWorkflow(id(i), { inputs: text, user: text, roles: text }));
    await workflows.insertMany(writer, rows);
    const recorded = awkwardTexts.map((text, i) => newStep(id(i), 0, { name: text, output: text, error: text }));
    expect(await steps.recordMany('app', recorded)).toBe(awkwardTexts.length);
    const ended = awkwardTexts.map((text, i) => finished(id(i), { output: text, error: text }));
    expect((await workflows.finishMany(ended)).size).toBe(awkwardTexts.length);
    const stored = new Map(
      (await workflows.get(rows.map((row) => row.workflowId))).map((row) => [row.workflowId, row]),
    );
    const history = new Map((await steps.history([...stored.keys()])).map((step) => [step.workflowId, step]));
    awkwardTexts.forEach((text, i) => {
      expect(stored.get(id(i))).toMatchObject({ inputs: text, user: text, roles: text, output: text, error: text });
      expect(history.get(id(i))).toMatchObject({ name: text, output: text, error: text });
    });
  });

  it('finds workflows by IDs, names, owners and versions of any text', async () => {
    const { workflows, steps } = store.storage;
    const texts = awkwardTexts.filter((text) => text.trim() !== '');
    const rows = texts.map((text) => newWorkflow(text, { name: text, owner: text, version: text }));
    expect(await workflows.insertMany(writer, rows)).toEqual(new Set(texts));
    expect((await workflows.get(texts)).map((row) => row.workflowId).sort()).toEqual([...texts].sort());
    expect((await workflows.endings(texts)).length).toBe(texts.length);
    expect((await workflows.list({ ids: texts })).length).toBe(texts.length);
    for (const text of texts) {
      expect(await workflows.list({ name: text, version: text })).toMatchObject([{ workflowId: text }]);
    }
    const recorded = texts.map((text) => newStep(text, 3, { owner: text }));
    expect(await steps.recordMany('app', recorded)).toBe(recorded.length);
    expect((await steps.states(recorded)).every((each) => each.recorded && each.owner === each.workflowId)).toBe(true);
    const cancelled = await idsOf(workflows.cancel({ workflowIds: texts, reason: '"', now: 1 }));
    expect(cancelled).toEqual([...texts].sort());
  });

  it('claims work of executors, names, versions, apps and queues of any text', async () => {
    const { workflows } = store.storage;
    for (const text of awkwardTexts.filter((each) => each.trim() !== '')) {
      const own = { executorId: text, appName: text };
      await workflows.insertMany(own, [newWorkflow(text, { name: text, version: text })]);
      const runnable = [{ name: text, maxRecoveryAttempts: 5 }];
      const claim = newClaim({ writer: own, owner: text, version: text, runnable });
      const taken = await takeOver(store.storage, { ...claim, executorIds: [text] });
      expect(taken).toMatchObject([{ workflowId: text, owner: text }]);
      expect(await store.storage.takeovers.executors({ version: text, appName: text })).toEqual([text]);
      await workflows.insertMany(own, [newWorkflow(`${text}2`, { name: text, version: text, owner: text })]);
      await workflows.release({ owned: [{ workflowId: `${text}2`, owner: text }], queueName: text, now: 1 });
      expect(await dequeue(store.storage, { ...claim, queueName: text })).toMatchObject([{ queueName: text }]);
    }
  });

  it('keeps attributes as equivalent JSON', async () => {
    const { workflows } = store.storage;
    const attributes = { text: awkwardTexts, nested: { a: [1, -0.5, 1e300, true, null] }, '{"': '}' };
    const rows = [newWorkflow('a', { attributes: JSON.stringify(attributes) }), newWorkflow('b')];
    await workflows.insertMany(writer, rows);
    const stored = new Map((await workflows.get(['a', 'b'])).map((row) => [row.workflowId, row.attributes]));
    expect(JSON.parse(stored.get('a') ?? '')).toEqual(attributes);
    expect(stored.get('b')).toBeNull();
  });

  it('stores 5 MB in one value', async () => {
    const { workflows, steps } = store.storage;
    const large = 'é"\\{,'.repeat(1_000_000);
    await workflows.insertMany(writer, [newWorkflow('a', { inputs: large })]);
    await steps.recordMany('app', [newStep('a', 0, { output: large })]);
    await workflows.finishMany([finished('a', { output: large })]);
    const [row] = await workflows.get(['a']);
    const [step] = await steps.history(['a']);
    // Compared as booleans, because a failed comparison of the texts would print them.
    expect([row?.inputs === large, row?.output === large, step?.output === large]).toEqual([true, true, true]);
  });

  it('keeps instants and numbers exact', async () => {
    const { workflows, steps } = store.storage;
    const late = Date.UTC(9999, 11, 31);
    const times = { createdAt: late, timeoutMs: 2 ** 45, deadlineAt: late + 2 ** 45 };
    await workflows.insertMany(writer, [newWorkflow('a', times)]);
    expect(await workflows.get(['a'])).toMatchObject([{ ...times, updatedAt: late, startedAt: late }]);
    const step = { startedAt: 0, completedAt: late, completionSeq: 2 ** 31 - 1 };
    await steps.recordMany('app', [newStep('a', 2 ** 31 - 1, step)]);
    expect(await steps.history(['a'])).toMatchObject([{ ...step, stepNumber: 2 ** 31 - 1 }]);
  });

  it('writes a batch of 1000 rows of each kind', async () => {
    const { workflows, steps } = store.storage;
    const ids = Array.from({ length: 1000 }, (_, i) => `w${i}`);
    await start(store, ...ids);
    const begun = ids.map((id) => newStep(id, 0, { name: 'DBOS.sleep', completionSeq: null }));
    expect(await steps.recordMany('app', begun)).toBe(1000);
    const ends = begun.map(({ workflowId, owner }) => ({ workflowId, owner, stepNumber: 0 }));
    const completed = ends.map((end, i) => ({ ...end, completedAt: i, completionSeq: 0, ...first }));
    expect(await steps.completeMany(completed)).toBe(1000);
    expect((await steps.states(ends)).filter((each) => each.completionSeq === 0)).toHaveLength(1000);
    expect((await workflows.finishMany(ids.map((id) => finished(id, { output: id })))).size).toBe(1000);
    const outputs = (await workflows.get(ids)).map((row) => row.output === row.workflowId);
    expect(outputs.filter(Boolean)).toHaveLength(1000);
    const instants = (await steps.history(ids)).map((step) => `w${step.completedAt}` === step.workflowId);
    expect(instants.filter(Boolean)).toHaveLength(1000);
  });
});
