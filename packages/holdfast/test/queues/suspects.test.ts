import { expect, it, onTestFinished, vi } from 'vitest';
import { queue, run, sleep, workflow } from '../../src/index.js';
import { SqlQueues } from '../../src/storage/sql/queues.js';
import { describeBackends } from '../support/backends.js';
import { gate, tamper } from '../support/faults.js';

/** A workflow that has used up half of its attempts is claimed alone. These tests check that it is claimed in time. */
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

  it('does not wait until a backlog ends', async () => {
    const { t, wf, order, spend } = await launch({ concurrency: 1 });
    await wf.with({ queue: 'q', id: 'victim' }).start('victim');
    await spend('victim');
    await wf.with({ queue: 'q', priority: 5 }).startAll(Array.from({ length: 100 }, (_, i) => [`other ${i}`]));
    await t.app.queues.resume('q');
    await t.clock.runUntil(t.app.workflows.handle('victim').result());
    expect(order.indexOf('victim')).toBeLessThan(5);
  });

  const limits = [
    { concurrency: 1 },
    { workerConcurrency: 1 },
    { rateLimit: { max: 1, per: '300ms' } },
    { partition: { concurrency: 1 } },
  ];
  it.each(limits)('gets the next slot of a queue that others keep full (%j)', async (limit) => {
    const order: string[] = [];
    const work = async (name: string): Promise<void> => {
      await sleep(100);
      order.push(name);
    };
    const wf = workflow('wf', work, { maxRecoveryAttempts: 2 });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], queues: [queue('q', limit)] });
    const on = { queue: 'q', ...('partition' in limit && { partition: 'p' }) };
    await wf.with({ ...on, priority: 5 }).startAll(Array.from({ length: 100 }, (_, i) => [`other ${i}`]));
    // The delay prevents a claim before the test changes the number of attempts.
    await wf.with({ ...on, id: 'victim', delay: '1s' }).start('victim');
    await tamper(database, "update workflow_status set recovery_attempts = 1 where workflow_uuid = 'victim'");
    while (!order.includes('victim') && order.length < 90) await t.clock.advance(50);
    expect(order).toContain('victim');
  });

  it.each([['a queue', 'q'], ['the internal queue']])(
    'does not wait forever for another such workflow, on %s',
    async (_, on?: string) => {
      const paid = gate<string>();
      const options = { maxRecoveryAttempts: 2 };
      const waits = workflow('waits', async () => run('wait for the payment', () => paid.promise), options);
      const pays = workflow('pays', async () => run('pay', () => paid.open('paid')), options);
      const database = await backend.newDatabase();
      const t = await backend.testApp({ database, workflows: [waits, pays], queues: [queue('q')] });
      const how = { delay: '1s', ...(on !== undefined && { queue: on }) };
      const waiting = await waits.with(how).start();
      await pays.with({ ...how, delay: '2s' }).start();
      await tamper(database, 'update workflow_status set recovery_attempts = 1');
      expect(await t.clock.runUntil(waiting.result())).toBe('paid');
    },
  );

  it('does not delay other workflows when its claim fails', async () => {
    const { t, wf, order, spend } = await launch({});
    await wf.with({ queue: 'q', id: 'victim' }).start('victim');
    await spend('victim');
    const { dequeue } = SqlQueues.prototype;
    const failing = vi.spyOn(SqlQueues.prototype, 'dequeue').mockImplementation(function (this: SqlQueues, claim) {
      return claim.suspects ? Promise.reject(new Error('too many to count')) : dequeue.call(this, claim);
    });
    onTestFinished(() => failing.mockRestore());
    const other = await wf.with({ queue: 'q' }).start('other');
    await t.app.queues.resume('q');
    await t.clock.runUntil(other.result());
    expect(order).toEqual(['other']);
  });

  it('lets the next such workflow start as soon as it ends, without a poll', async () => {
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
