import { expect, it } from 'vitest';
import { internalQueue } from '../../src/model/queues.js';
import type { NewRetry } from '../../src/storage/contract/retries.js';
import { describeStorage, finished, newRetry, newStep, newWorkflow, type Store, writer } from './contract-support.js';
import { effectful, message, said, set, written } from './messaging-support.js';

/** Creates the failed workflow `a`. Its steps have received a message, had effects and ended a child. */
async function plant({ storage }: Store): Promise<void> {
  await storage.workflows.insertMany(writer, [newWorkflow('a', { timeoutMs: 60_000, deadlineAt: 61_000 })]);
  for (const n of [0, 1, 2, 3]) {
    await storage.messages.send([message(`m${n}`, 'a')]);
    const effects = [set(`k${n}`, '1'), written(`s${n}`, '1'), written(`s${n}`, '"__DBOS_STREAM_CLOSED__"')];
    const consumed = { kind: 'consume', messageId: `m${n}` } as const;
    await storage.steps.recordEffects('app', [effectful('a', n, [...effects, consumed], { requestedAfter: n - 1 })]);
  }
  await storage.workflows.finishMany([finished('a', { status: 'ERROR', output: null, error: '"no"' })]);
}

describeStorage('retries.retry', (store) => {
  const retry = (more: Partial<NewRetry> = {}) => store.storage.retries.retry(newRetry(more));

  it('also removes the error of a workflow of DBOS 5, but not the error of another workflow', async () => {
    await plant(store);
    await store.sql(`update ${store.table('workflow_status')} set error = null where workflow_uuid = 'a'`);
    const insert = `insert into ${store.table('workflow_output')} (workflow_uuid, error) values`;
    await store.sql(`${insert} ('a', '"of DBOS"'), ('other', '"of DBOS"')`);
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ status: 'ERROR', error: '"of DBOS"' }]);
    await retry();
    expect(await store.storage.workflows.get(['a'])).toMatchObject([{ status: 'ENQUEUED', error: null }]);
    const left = await store.sql(`select workflow_uuid from ${store.table('workflow_output')}`);
    expect(left).toEqual([{ workflow_uuid: 'other' }]);
    await store.sql(`delete from ${store.table('workflow_output')}`);
  });

  it('enqueues a failed workflow again, without the given steps and their effects', async () => {
    await plant(store);
    expect(await store.storage.retries.receipts('a')).toEqual([0, 1, 2, 3]);
    expect(await retry()).toEqual({ queueName: internalQueue });
    const [row] = await store.storage.workflows.get(['a']);
    const none = { owner: null, executorId: null, error: null, output: null, completedAt: null, deadlineAt: null };
    expect(row).toMatchObject({
      status: 'ENQUEUED',
      attempts: 0,
      retries: '[1]',
      updatedAt: 9000,
      version: 'v1',
      ...none,
    });
    const steps = await store.storage.steps.history(['a']);
    expect(steps.map((step) => [step.stepNumber, step.requestedAfter]).sort()).toEqual([
      [0, -1],
      [2, 1],
    ]);
    const { messages, events, history, streams } = await said(store);
    expect(messages).toEqual(['m0 read', 'm1 unread', 'm2 read', 'm3 unread']);
    expect(history).toEqual(['a 0 k0 1', 'a 2 k2 1']);
    expect(events).toHaveLength(4);
    expect(streams?.filter((line) => line.includes('CLOSED')).map((line) => line.split(' ')[1])).toEqual(['s0', 's2']);
    expect(streams).toHaveLength(6);
    expect(await store.storage.retries.receipts('a')).toEqual([0, 2]);
  });

  it('does not change a workflow that has changed since it was read', async () => {
    await plant(store);
    const before = [await said(store), await store.storage.steps.history(['a'])];
    for (const more of [{ before: '[0]' }, { incarnation: 'another' }, { createdAt: 1 }, { workflowId: 'b' }]) {
      expect(await retry(more)).toBeUndefined();
    }
    expect([await said(store), await store.storage.steps.history(['a'])]).toEqual(before);
    expect(await retry()).toBeDefined();
    expect(await retry()).toBeUndefined();
    expect(await retry({ before: '[1]', after: '[1,2]' })).toBeUndefined();
  });

  it('takes effect once when several retry at once', async () => {
    await plant(store);
    const other = await store.another();
    const tries = [store.storage, other, store.storage, other].map((each) => each.retries.retry(newRetry()));
    expect((await Promise.all(tries)).filter((each) => each !== undefined)).toHaveLength(1);
  });

  it('finds nothing to do if a deletion of the same workflow wins, and the reverse', async () => {
    const other = await store.another();
    for (let round = 0; round < 5; round++) {
      await plant(store);
      const [retried, deleted] = await Promise.all([
        retry(),
        other.deletions.remove({ workflowIds: ['a'], children: false }),
      ]);
      expect([retried !== undefined, deleted]).toSatisfy(
        ([isRetried, count]: unknown[]) => (isRetried === true && count === 0) || (isRetried === false && count === 1),
      );
      const steps = await store.storage.steps.history(['a']);
      expect(steps).toHaveLength(retried ? 2 : 0);
      await store.sql(`delete from ${store.table('workflow_status')}`);
      await store.sql(`delete from ${store.table('operation_outputs')}`);
    }
  });

  it('retries workflows that DBOS left, and moves them to another version if asked to', async () => {
    await store.storage.workflows.insertMany(writer, [newWorkflow('a')]);
    await store.storage.steps.recordMany('app', [newStep('a', 0), newStep('a', 1)]);
    const foreign = 'incarnation = null, owner_xid = null, completed_at = null';
    await store.sql(`update ${store.table('workflow_status')} set status = 'ERROR', ${foreign}, queue_name = 'gone'`);
    await store.sql(`update ${store.table('operation_outputs')} set completion_seq = null, requested_after = null`);
    expect(await retry({ incarnation: null, version: 'v2' })).toEqual({ queueName: internalQueue });
    expect((await store.storage.workflows.get(['a']))[0]).toMatchObject({ version: 'v2', queueName: internalQueue });
    expect(await store.storage.steps.history(['a'])).toMatchObject([{ stepNumber: 0, requestedAfter: null }]);
  });
});
