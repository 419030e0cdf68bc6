import { expect, it } from 'vitest';
import type { AttemptChange } from '../../src/storage/contract/storage.js';
import { describeStorage, finished, first, start } from './contract-support.js';

function change(token: string, more: Partial<AttemptChange> = {}): AttemptChange {
  const common = { workflowId: 'a', owner: 'owner of a', stepNumber: 0 };
  return { ...common, token, attempt: null, nextAt: null, at: 5000, ...first, ...more };
}

describeStorage('steps.changeAttempts', (store) => {
  const make = async (...changes: AttemptChange[]) => [...(await store.storage.steps.changeAttempts(changes)).values()];
  const rows = async () => (await store.sql(`select 1 as n from ${store.table('step_attempts')}`)).length;

  it('counts attempts that begin, and keeps the numbers of interrupted attempts', async () => {
    await start(store, 'a');
    expect(await make(change('1'))).toMatchObject([{ token: '1', attempt: 1, nextAt: null, interrupted: [] }]);
    expect(await make(change('2'))).toMatchObject([{ token: '2', attempt: 2, nextAt: null, interrupted: [1] }]);
    expect(await make(change('3'))).toMatchObject([{ token: '3', attempt: 3, nextAt: null, interrupted: [1, 2] }]);
  });

  it('counts a repeated change once', async () => {
    await start(store, 'a');
    await make(change('1'));
    expect(await make(change('1'))).toMatchObject([{ attempt: 1, interrupted: [] }]);
    for (let n = 0; n < 2; n++) {
      expect(await make(change('2', { attempt: 1, nextAt: 5000 }))).toMatchObject([
        { token: '2', attempt: 1, nextAt: 5000 },
      ]);
    }
    for (let n = 0; n < 2; n++) {
      expect(await make(change('3'))).toMatchObject([{ token: '3', attempt: 2, nextAt: null, interrupted: [] }]);
    }
  });

  it('does not begin an attempt before its time, and returns that time', async () => {
    await start(store, 'a');
    await make(change('1', { attempt: 1, nextAt: 9000 }));
    expect(await make(change('2'))).toMatchObject([{ token: '1', attempt: 1, nextAt: 9000 }]);
    expect(await make(change('3', { at: 9000 }))).toMatchObject([
      { token: '3', attempt: 2, nextAt: null, interrupted: [] },
    ]);
  });

  it('gives back an attempt that a shutdown interrupted, even the first attempt', async () => {
    await start(store, 'a');
    await make(change('1'));
    await make(change('2', { attempt: 0, nextAt: 0 }));
    expect(await make(change('3'))).toMatchObject([{ attempt: 1, interrupted: [] }]);
  });

  it('changes many steps at once, each separately, but none of another owner', async () => {
    await start(store, 'a', 'b', 'c');
    await store.storage.workflows.finishMany([finished('b')]);
    const of = (workflowId: string, owner: string, stepNumber = 0) =>
      change(`${workflowId} ${stepNumber}`, { workflowId, owner, stepNumber });
    const own = ['a', 'b', 'c'].map((id) => of(id, `owner of ${id}`));
    const changed = await make(...own, of('c', 'another', 2), of('a', 'owner of a', 1), of('d', 'owner of d'));
    const keys = changed.map(({ workflowId, stepNumber, token }) => [workflowId, stepNumber, token]);
    expect(keys.sort()).toEqual([
      ['a', 0, 'a 0'],
      ['a', 1, 'a 1'],
      ['c', 0, 'c 0'],
    ]);
    expect(await rows()).toBe(changed.length);
  });

  it('loses its rows when the workflow is deleted', async () => {
    await start(store, 'a');
    await make(change('1'));
    await store.storage.workflows.finishMany([finished('a')]);
    expect(await store.storage.deletions.remove({ workflowIds: ['a'], children: false })).toBe(1);
    expect(await rows()).toBe(0);
  });
});
