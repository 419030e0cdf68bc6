import { expect, it, onTestFinished, vi } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { SqlWorkflows } from '../../src/storage/sql/workflows.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';

/** Work that has used up half of its attempts is taken by itself; that must not mean never. */
describeBackends('a workflow that has used up half of its attempts', (backend) => {
  const launch = async (limits: Parameters<typeof queue>[1]) => {
    const order: string[] = [];
    const wf = workflow('wf', async (name: string) => void order.push(name), { maxRecoveryAttempts: 2 });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], queues: [queue('q', limits)] });
    await t.app.queues.pause('q');
    const spend = (id: string) =>
      tamper(database, `update workflow_status set recovery_attempts = 1 where workflow_uuid like '${id}'`);
    return { t, wf, order, spend };
  };

  it('does not wait for a backlog of others to end', async () => {
    const { t, wf, order, spend } = await launch({ concurrency: 1 });
    await wf.with({ queue: 'q', id: 'victim' }).start('victim');
    await spend('victim');
    await wf.with({ queue: 'q', priority: 5 }).startAll(Array.from({ length: 100 }, (_, i) => [`other ${i}`]));
    await t.app.queues.resume('q');
    await t.clock.runUntil(t.app.workflows.handle('victim').result());
    expect(order.indexOf('victim')).toBeLessThan(5);
  });

  it('does not keep others waiting when it cannot be taken', async () => {
    const { t, wf, order, spend } = await launch({});
    await wf.with({ queue: 'q', id: 'victim' }).start('victim');
    await spend('victim');
    const { dequeue } = SqlWorkflows.prototype;
    const failing = vi.spyOn(SqlWorkflows.prototype, 'dequeue').mockImplementation(function (
      this: SqlWorkflows,
      claim,
    ) {
      return claim.suspects ? Promise.reject(new Error('too many to count')) : dequeue.call(this, claim);
    });
    onTestFinished(() => failing.mockRestore());
    const other = await wf.with({ queue: 'q' }).start('other');
    await t.app.queues.resume('q');
    await t.clock.runUntil(other.result());
    expect(order).toEqual(['other']);
  });

  it('is followed by the next such one as soon as it has ended, without a poll', async () => {
    const { t, wf, order, spend } = await launch({});
    const names = ['a', 'b', 'c', 'd', 'e'];
    const inputs = names.map((name): [string] => [name]);
    const handles = await wf.with({ queue: 'q' }).startAll(inputs, ([name]) => ({ id: `victim-${name}` }));
    await spend('victim-%');
    await t.app.queues.resume('q');
    await Promise.all(handles.map((handle) => handle.result()));
    expect(order).toEqual(names);
  });
});
