import { expect, it } from 'vitest';
import {
  describeStorage,
  finished,
  newChild,
  newStep,
  newWorkflow,
  start,
  statuses,
  writer,
} from './contract-support.js';

describeStorage('deletions for retention', (store) => {
  /** Creates workflows that ended one after the other, a millisecond apart. */
  const ended = async (...ids: readonly string[]): Promise<void> => {
    await start(store, ...ids);
    await store.storage.workflows.finishMany(ids.map((id, i) => finished(id, { completedAt: 2000 + i })));
  };
  const page = (before: number, limit = 100) =>
    store.storage.deletions.expired({ appName: 'app', before, after: undefined, limit });
  const remove = (before: number, ...workflowIds: readonly string[]) =>
    store.storage.deletions.removeExpired({ workflowIds, before });

  it('find workflows that ended before an instant, page by page, each once, even with equal times', async () => {
    await ended('a', 'b', 'c', 'd');
    await start(store, 'x', 'y', 'z', 'running');
    await store.storage.workflows.finishMany(['x', 'y', 'z'].map((id) => finished(id, { completedAt: 2000 })));
    const found: string[] = [];
    let after: Awaited<ReturnType<typeof page>>['next'];
    for (let pages = 0; pages < 10; pages++) {
      const next = await store.storage.deletions.expired({ appName: 'app', before: 2003, after, limit: 2 });
      found.push(...next.roots);
      after = next.next;
      if (!after) break;
    }
    expect(found).toEqual(['a', 'x', 'y', 'z', 'b', 'c']);
  });

  it('skip children of existing parents, other applications, and stalled workflows', async () => {
    const { workflows } = store.storage;
    await start(store, 'p', 'stalled', 'others');
    await workflows.insertChildren(writer, [newChild('c', 'p')]);
    await workflows.finishMany([finished('p'), finished('c'), finished('others')]);
    await workflows.stall({ workflowId: 'stalled', owner: 'owner of stalled', reason: 'x', error: '"x"', now: 2000 });
    await store.sql(
      `update ${store.table('workflow_status')} set application_name = 'b' where workflow_uuid = 'others'`,
    );
    expect((await page(9000)).roots).toEqual(['p']);
    await store.sql(`delete from ${store.table('workflow_status')} where workflow_uuid = 'p'`);
    expect((await page(9000)).roots).toEqual(['c']);
  });

  it('delete each tree separately and whole, if all of it ended before the instant and nothing needs it', async () => {
    const { workflows, steps } = store.storage;
    await start(store, 'good', 'late', 'running', 'needed', 'needing', 'aside', 'held');
    await workflows.insertChildren(writer, [newChild('good-0', 'good'), newChild('late-0', 'late')]);
    await workflows.insertChildren(writer, [newChild('running-0', 'running', { detached: true })]);
    await steps.recordMany('app', [newStep('needing', 0, { childWorkflowId: 'needed' })]);
    await steps.recordMany('app', [newStep('aside', 0, { childWorkflowId: 'held' })]);
    await workflows.stall({ workflowId: 'aside', owner: 'owner of aside', reason: 'x', error: '"x"', now: 2000 });
    await workflows.finishMany(['good', 'good-0', 'late', 'running', 'needed', 'held'].map((id) => finished(id)));
    await workflows.finishMany([finished('late-0', { completedAt: 8000 })]);
    expect(await remove(5000, 'good', 'late', 'running', 'needed', 'held', 'aside', 'nowhere')).toBe(2);
    expect(Object.keys(await statuses(store)).sort()).toEqual([
      ...['aside', 'held', 'late', 'late-0', 'needed', 'needing', 'running', 'running-0'],
    ]);
    await workflows.finishMany([finished('needing'), finished('running-0')]);
    expect(await remove(9000, 'late', 'running', 'needed')).toBe(5);
  });

  it('find the instant since which a given number of workflows ended', async () => {
    const cutoff = (keep: number) => store.storage.deletions.cutoff({ appName: 'app', keep });
    expect(await cutoff(0)).toBeUndefined();
    await ended('a', 'b', 'c');
    await store.storage.workflows.insertMany(writer, [newWorkflow('running')]);
    expect([await cutoff(0), await cutoff(1), await cutoff(3), await cutoff(4)]).toEqual([2003, 2002, 2000, undefined]);
  });

  it('can be made by several processes for the same workflows at once', async () => {
    const ids = Array.from({ length: 50 }, (_, i) => `w${String(i).padStart(2, '0')}`);
    await ended(...ids);
    const other = await store.another();
    const reversed = [...ids].reverse();
    const gone = await Promise.all([
      remove(9000, ...ids),
      other.deletions.removeExpired({ workflowIds: reversed, before: 9000 }),
    ]);
    expect(gone[0] + gone[1]).toBe(50);
  });
});
