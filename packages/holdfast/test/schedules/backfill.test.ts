import { expect, it } from 'vitest';
import { queue, schedule, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

describeBackends('backfill', (backend) => {
  const wf = workflow('wf', async (at: Date, given?: unknown) => `${at.toISOString()} ${given}`);
  const hourly = schedule('s', '0 * * * *', wf, { context: 'c' });
  const ids = (list: readonly { readonly id: string }[]): string[] => list.map(({ id }) => id);
  const tick = (time: string): string => `sched-s-2029-12-31T${time}:00.000Z`;

  it('runs each tick from the first instant up to, but not including, the second', async () => {
    const t = await backend.testApp({ workflows: [wf], schedules: [hourly] });
    const range = { from: '2029-12-31T20:00:00Z', to: new Date('2029-12-31T23:00:00Z') };
    const handles = await t.app.schedules.backfill('s', range);
    expect(ids(handles)).toEqual([tick('20:00'), tick('21:00'), tick('22:00')]);
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([
      '2029-12-31T20:00:00.000Z c',
      '2029-12-31T21:00:00.000Z c',
      '2029-12-31T22:00:00.000Z c',
    ]);
    expect(await t.app.schedules.get('s')).toMatchObject({ lastFiredAt: undefined });
  });

  it('leaves ticks that have run as they are, and returns only the new ticks', async () => {
    const t = await backend.testApp({ workflows: [wf], schedules: [hourly] });
    const at = (time: string) => Date.parse(`2029-12-31T${time}:00Z`);
    await t.app.schedules.backfill('s', { from: at('21:00'), to: at('22:00') });
    const handles = await t.app.schedules.backfill('s', { from: at('20:00'), to: at('23:30') });
    expect(ids(handles)).toEqual([tick('20:00'), tick('22:00'), tick('23:00')]);
    expect(await t.app.schedules.backfill('s', { from: at('20:00'), to: at('23:30') })).toEqual([]);
    expect(await t.app.workflows.list()).toHaveLength(4);
  });

  it('shows in a preview what it would run, and writes nothing', async () => {
    const t = await backend.testApp({ workflows: [wf], schedules: [hourly] });
    await t.app.schedules.backfill('s', { from: '2029-12-31T21:00:00Z', to: '2029-12-31T22:00:00Z' });
    const range = { from: '2029-12-31T20:30:00+00:00', to: '2029-12-31T22:00:00.001Z', preview: true } as const;
    expect(await t.app.schedules.backfill('s', range)).toEqual([
      { scheduledAt: new Date('2029-12-31T21:00:00Z'), workflowId: tick('21:00'), exists: true },
      { scheduledAt: new Date('2029-12-31T22:00:00Z'), workflowId: tick('22:00'), exists: false },
    ]);
    expect(await t.app.workflows.list()).toHaveLength(1);
    expect(await t.app.schedules.backfill('s', { from: 0, to: 0, preview: true })).toEqual([]);
  });

  it('leaves out future ticks, which run when they are due', async () => {
    const t = await backend.testApp({ workflows: [wf], schedules: [hourly] });
    const range = { from: '2029-12-31', to: '2030-06-01' };
    expect(await t.app.schedules.backfill('s', range)).toHaveLength(25);
    expect(await t.app.schedules.backfill('s', { ...range, preview: true })).toHaveLength(25);
    await t.clock.advance('2h');
    expect(await t.app.workflows.list()).toHaveLength(27);
  });

  it('follows the time zone, even on days when the clocks change', async () => {
    const t = await backend.testApp({ workflows: [wf] });
    await t.app.schedules.create(schedule('s', '30 2 * * *', wf, { timezone: 'America/New_York' }));
    const range = { from: '2029-03-10', to: '2029-03-13', preview: true } as const;
    const ticks = await t.app.schedules.backfill('s', range);
    // 2029-03-11 02:00 EST became 03:00 EDT.
    expect(ticks.map(({ scheduledAt }) => scheduledAt.toISOString().slice(0, 16))).toEqual([
      '2029-03-10T07:30',
      '2029-03-11T07:00',
      '2029-03-12T06:30',
    ]);
  });

  it('works while the schedule is paused, and uses its queue', async () => {
    const q = queue('q', { concurrency: 1 });
    const schedules = [schedule('s', '0 * * * *', wf, { queue: q })];
    const t = await backend.testApp({ workflows: [wf], queues: [q], schedules });
    await t.app.schedules.pause('s');
    const handles = await t.app.schedules.backfill('s', { from: '2029-12-31T20:00:00Z', to: '2029-12-31T23:00:00Z' });
    await Promise.all(handles.map((handle) => handle.result()));
    const runs = await t.app.workflows.list();
    expect(runs.map(({ queueName, status }) => [queueName, status])).toEqual(Array(3).fill(['q', 'SUCCESS']));
  });

  it('runs ten thousand ticks once each, in several statements', async () => {
    const database = await backend.newDatabase();
    const held = queue('held');
    const t = await backend.testApp({ database, workflows: [wf], queues: [held] });
    await t.app.queues.pause('held');
    await t.app.schedules.create(schedule('s', '* * * * *', wf, { queue: held }));
    const from = Date.UTC(2029, 0, 1);
    const range = { from, to: from + 10_000 * 60_000 };
    const [one, two] = await Promise.all([t.app.schedules.backfill('s', range), t.app.schedules.backfill('s', range)]);
    expect(one.length + two.length).toBe(10_000);
    const [row] = await tamper(
      database,
      'select count(*) as n, count(distinct enqueue_seq) as places from workflow_status',
    );
    expect([Number(row?.n), Number(row?.places)]).toEqual([10_000, 10_000]);
    expect(await failure(t.app.schedules.backfill('s', { ...range, to: range.to + 1 }))).toMatchObject({
      code: 'INVALID_OPTION',
    });
  });

  it('and trigger fail if the queue of the schedule was deleted', async () => {
    const q = queue('q');
    const schedules = [schedule('s', '0 * * * *', wf, { queue: q })];
    const t = await backend.testApp({ workflows: [wf], queues: [q], schedules });
    await t.app.queues.delete('q');
    expect(await failure(t.app.schedules.trigger('s'))).toMatchObject({ code: 'UNKNOWN_QUEUE' });
    const range = { from: '2029-12-31T20:00:00Z', to: '2029-12-31T23:00:00Z' };
    expect(await failure(t.app.schedules.backfill('s', range))).toMatchObject({ code: 'UNKNOWN_QUEUE' });
    expect(await t.app.workflows.list()).toEqual([]);
  });
});
