import { expect, it } from 'vitest';
import { describeStorage, finished, start } from './contract-support.js';
import { effectful, said, written } from './messaging-support.js';

describeStorage('streams', (store) => {
  const write = (workflowId: string, step: number, ...values: string[]) =>
    store.storage.steps.recordEffects('app', [
      effectful(
        workflowId,
        step,
        values.map((value) => written('k', value)),
      ),
    ]);
  const place = (workflowId: string, from = 0, key = 'k') => ({ workflowId, key, from });

  it('return values from a given place, in order, with the status of the workflow', async () => {
    await start(store, 'a', 'ended');
    await write('a', 0, 'v0', 'text "with" \\ all');
    await write('a', 1, 'v2');
    await write('ended', 0, 'last');
    await store.storage.workflows.finishMany([finished('ended')]);
    const asked = [place('a'), place('a', 2), place('a', 3), place('a', 0, 'other'), place('ended'), place('nowhere')];
    const found = await store.storage.streams.read(asked, 10);
    const answer = (question: (typeof asked)[number]) => {
      const one = found.find((each) => (['workflowId', 'key', 'from'] as const).every((k) => each[k] === question[k]));
      return [one?.status, one?.entries.map((entry) => `${entry.offset} ${entry.value}`)];
    };
    expect(asked.map(answer)).toEqual([
      ['PENDING', ['0 v0', '1 text "with" \\ all', '2 v2']],
      ['PENDING', ['2 v2']],
      ['PENDING', []],
      ['PENDING', []],
      ['SUCCESS', ['0 last']],
      [undefined, []],
    ]);
    expect(await store.storage.streams.read([], 10)).toEqual([]);
  });

  it('report that the given place is behind the end', async () => {
    await start(store, 'a', 'b', 'old');
    await write('a', 0, 'v0', '"__DBOS_STREAM_CLOSED__"');
    await write('b', 0, 'v0', 'v1');
    await write('old', 0, '__DBOS_STREAM_CLOSED__');
    const ends = [place('a', 2), place('a', 7), place('old', 1)];
    const others = [
      place('a'),
      place('a', 1),
      place('a', 2, 'other'),
      place('b', 2),
      place('old'),
      place('nowhere', 1),
    ];
    const found = await store.storage.streams.read([...ends, ...others], 10);
    const behind = found.filter(({ isBehindEnd }) => isBehindEnd);
    expect(found).toHaveLength(9);
    expect(behind.map(({ workflowId, from }) => `${workflowId} ${from}`).sort()).toEqual(['a 2', 'a 7', 'old 1']);
  });

  it('return no more values per stream than the limit', async () => {
    await start(store, 'a', 'b');
    for (const id of ['a', 'b']) await write(id, 0, ...Array.from({ length: 10 }, (_, i) => `v${i}`));
    const found = await store.storage.streams.read([place('a'), place('a', 8), place('b', 3)], 4);
    const offsets = found.map((each) => each.entries.map((entry) => entry.offset)).sort();
    expect(offsets).toEqual([
      [0, 1, 2, 3],
      [3, 4, 5, 6],
      [8, 9],
    ]);
  });

  it('have consecutive places in the order of completion, regardless of the order in the batch', async () => {
    await start(store, 'a', 'b');
    const step = (workflowId: string, n: number, completionSeq: number, ...keys: string[]) =>
      effectful(
        workflowId,
        n,
        keys.map((key, i) => written(key, `${n}.${i}`)),
        { completionSeq },
      );
    const { steps, streams } = store.storage;
    const batch = [
      step('a', 5, 2, 'k', 'k'),
      step('b', 1, 0, 'k'),
      step('a', 6, 1, 'k', 'other'),
      step('a', 7, 3, 'k'),
    ];
    if (store.backend === 'sqlite') batch.sort((x, y) => (x.completionSeq ?? 0) - (y.completionSeq ?? 0));
    await steps.recordEffects('app', batch);
    await steps.recordEffects('app', [step('a', 8, 4, 'k', 'other')]);
    const list = (await streams.list('a')).map((entry) => `${entry.key} ${entry.offset} ${entry.value}`);
    expect(list).toEqual(['k 0 6.0', 'k 1 5.0', 'k 2 5.1', 'k 3 7.0', 'k 4 8.0', 'other 0 6.1', 'other 1 8.1']);
    expect((await streams.list('b')).map((entry) => entry.offset)).toEqual([0]);
    expect((await said(store)).streams).toHaveLength(8);
  });
});
