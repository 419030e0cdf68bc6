import { expect, it } from 'vitest';
import { OwnerTokens } from '../../src/model/ids.js';
import { describeStorage, finished, newClaim, start, takeOver } from './contract-support.js';
import { effectful, said, set } from './messaging-support.js';

describeStorage('events', (store) => {
  const event = (workflowId: string, more: object = {}) => ({
    ...{ workflowId, owner: `owner of ${workflowId}`, stepNumber: 0, key: 'k', value: '1', serialization: 'js' },
    ...more,
  });

  it('are read together with the status of their workflow', async () => {
    await start(store, 'a', 'b', 'ended');
    const { events, workflows } = store.storage;
    expect(await events.set(event('a', { value: 'text "with" \\ all' }))).toBe(true);
    await workflows.finishMany([finished('ended')]);
    const asked = ['a', 'b', 'ended', 'nowhere'].map((workflowId) => ({ workflowId, key: 'k' }));
    const found = new Map((await events.read(asked)).map((each) => [each.workflowId, each]));
    const nothing = { key: 'k', event: null };
    expect(found.get('a')).toMatchObject({ event: { value: 'text "with" \\ all', serialization: 'js' } });
    expect(found.get('a')?.status).toBe('PENDING');
    expect(found.get('b')).toMatchObject({ workflowId: 'b', ...nothing, status: 'PENDING' });
    expect(found.get('ended')).toMatchObject({ workflowId: 'ended', ...nothing, status: 'SUCCESS' });
    expect(found.get('nowhere')).toEqual({ workflowId: 'nowhere', ...nothing, status: undefined, isOfDbos: false });
    expect(await events.read([])).toEqual([]);
  });

  it('show by the owner if DBOS has claimed the workflow, and so do streams', async () => {
    const owners: Record<string, string | null> = {
      ours: new OwnerTokens().next(),
      dbos: '0f2c1d3e-4b5a-4c6d-8e7f-001122334455',
      queued: null,
    };
    await start(store, ...Object.keys(owners));
    for (const [id, owner] of Object.entries(owners)) {
      const value = owner === null ? 'null' : `'${owner}'`;
      await store.sql(
        `update ${store.table('workflow_status')} set owner_xid = ${value} where workflow_uuid = '${id}'`,
      );
    }
    const { events, streams } = store.storage;
    const asked = [...Object.keys(owners), 'nowhere'].map((workflowId) => ({ workflowId, key: 'k', from: 0 }));
    const byDbos = (found: readonly { readonly workflowId: string; readonly isOfDbos: boolean }[]) =>
      found.filter(({ isOfDbos }) => isOfDbos).map(({ workflowId }) => workflowId);
    expect(byDbos(await events.read(asked)).sort()).toEqual(['dbos', 'queued']);
    expect(byDbos(await streams.read(asked, 10)).sort()).toEqual(['dbos', 'queued']);
  });

  it('have their value replaced, and keep the last value of each step', async () => {
    await start(store, 'a');
    const { events, steps } = store.storage;
    await events.set(event('a', { stepNumber: 3, value: 'first' }));
    await events.set(event('a', { stepNumber: 3, value: 'second' }));
    await steps.recordEffects('app', [effectful('a', 4, [set('k', 'third'), set('other', 'x')])]);
    expect(await events.list('a')).toEqual([
      { workflowId: 'a', key: 'k', value: 'third', serialization: 'js' },
      { workflowId: 'a', key: 'other', value: 'x', serialization: 'js' },
    ]);
    expect((await said(store)).history).toEqual(['a 3 k second', 'a 4 k third', 'a 4 other x']);
  });

  it('are not set for a former owner, or if the workflow has ended or is cancelled', async () => {
    await start(store, 'a', 'ended', 'cancelled');
    const { events, workflows } = store.storage;
    await takeOver(store.storage, newClaim({ owner: 'fresh' }));
    await workflows.finishMany([finished('ended', { owner: 'fresh' })]);
    await workflows.cancel({ workflowIds: ['cancelled'], reason: null, now: 3000 });
    const tries = [
      event('a'),
      event('ended', { owner: 'fresh' }),
      event('cancelled', { owner: 'fresh' }),
      event('nowhere'),
    ];
    for (const each of tries) expect(await events.set(each)).toBe(false);
    expect(await said(store)).toMatchObject({ events: [], history: [] });
    expect(await events.set(event('a', { owner: 'fresh' }))).toBe(true);
  });
});
