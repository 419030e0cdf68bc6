import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';

describeBackends('a queue that is strictly first come, first served', (backend) => {
  const priorities = [9, 2, 0, 2, 1, 9, 0];
  const calls = priorities.map((_, i) => `${i}`);

  /** Launches an app with a paused queue of one slot, so no workflow runs before everything is enqueued. */
  async function paused(partition?: object) {
    const ran: string[] = [];
    const wf = workflow('wf', async (label: string) => void ran.push(label));
    const q = queue('q', { concurrency: 1, ...(partition && { partition }) });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], queues: [q] });
    await t.app.queues.pause('q');
    const enqueue = (label: string, priority?: number) =>
      wf
        .with({
          ...{ queue: q, id: label },
          ...(priority !== undefined && { priority }),
          ...(partition && { partition: 'p' }),
        })
        .start(label);
    const runAll = async () => {
      await t.app.queues.resume('q');
      await t.clock.advance(0);
      return ran;
    };
    return { t, database, enqueue, runAll };
  }

  it.each([
    ['of the whole queue', undefined],
    ['of a partition', {}],
  ])('ignores priorities from before the setting, %s', async (_, partition) => {
    const { t, enqueue, runAll } = await paused(partition);
    for (const [i, priority] of priorities.entries()) await enqueue(`${i}`, priority);
    await t.app.queues.update('q', { priority: false });
    expect(await runAll()).toEqual(calls);
  });

  it('ignores priorities that are written with SQL', async () => {
    const { t, database, enqueue, runAll } = await paused();
    await t.app.queues.update('q', { priority: false });
    for (const label of calls) await enqueue(label);
    for (const [i, priority] of priorities.entries()) {
      await tamper(database, `update workflow_status set priority = ${priority} where workflow_uuid = '${i}'`);
    }
    expect(await runAll()).toEqual(calls);
  });

  it('follows priorities again when the setting is reverted', async () => {
    const { t, enqueue, runAll } = await paused();
    for (const [i, priority] of priorities.entries()) await enqueue(`${i}`, priority);
    await t.app.queues.update('q', { priority: false });
    await t.app.queues.update('q', { priority: true });
    expect(await runAll()).toEqual(['2', '6', '4', '1', '3', '0', '5']);
  });
});
