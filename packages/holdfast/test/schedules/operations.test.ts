import { expect, it } from 'vitest';
import { queue, run, schedule, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

describeBackends('app.schedules', (backend) => {
  const report = workflow('report', async (at: Date, given?: unknown) => [at, given]);
  const other = workflow('other', async () => 'other');
  const tick = (minute: string) => `sched-s-2030-01-01T00:${minute}:00.000Z`;
  const minutes = async (t: TestApp): Promise<string[]> =>
    (await t.app.workflows.list()).map(({ workflowId }) => workflowId.slice(-10, -8)).sort();

  it('creates a schedule that ticks from then on, and shows it', async () => {
    const q = queue('q');
    const t = await backend.testApp({ workflows: [report], queues: [q] });
    await t.clock.advance('30s');
    const options = {
      timezone: 'Asia/Kolkata',
      context: { a: [1] },
      queue: q,
      catchUp: 'all',
      catchUpLimit: 5,
    } as const;
    const created = await t.app.schedules.create(schedule('s', '30 * * * *', report, options));
    expect(created).toEqual({
      name: 's',
      workflowName: 'report',
      cron: '30 * * * *',
      timezone: 'Asia/Kolkata',
      context: { a: [1] },
      status: 'ACTIVE',
      queueName: 'q',
      catchUp: 'all',
      catchUpLimit: 5,
      lastFiredAt: undefined,
      nextRunAt: Date.UTC(2030, 0, 1, 1),
    });
    expect(await t.app.schedules.get('s')).toEqual(created);
    await t.clock.advance('1h');
    expect(await t.app.schedules.get('s')).toMatchObject({
      lastFiredAt: Date.UTC(2030, 0, 1, 1),
      nextRunAt: Date.UTC(2030, 0, 1, 2),
    });
  });

  it('has defaults: UTC, no context, no queue, missed ticks skipped', async () => {
    const t = await backend.testApp({ workflows: [report] });
    expect(await t.app.schedules.create(schedule('s', '@daily', 'report'))).toMatchObject({
      timezone: 'UTC',
      context: undefined,
      queueName: undefined,
      catchUp: 'skip',
      catchUpLimit: 100,
      nextRunAt: Date.UTC(2030, 0, 2),
    });
  });

  it('refuses to create a schedule under a name that is taken', async () => {
    const t = await backend.testApp({ workflows: [report], schedules: [schedule('s', '1 * * * *', report)] });
    expect(await failure(t.app.schedules.create(schedule('s', '2 * * * *', report)))).toMatchObject({
      code: 'SCHEDULE_EXISTS',
      details: { name: 's' },
    });
    expect(await t.app.schedules.get('s')).toMatchObject({ cron: '1 * * * *' });
  });

  it('applies a list: creates new schedules, changes existing ones, and keeps their pause and last tick', async () => {
    const t = await backend.testApp({ workflows: [report, other], schedules: [schedule('s', '* * * * *', report)] });
    await t.clock.advance('1m');
    await t.app.schedules.pause('s');
    await t.app.schedules.apply([
      schedule('s', '*/5 * * * *', other, { context: 1, catchUp: 'one' }),
      schedule('a', '1 1 1 1 *', report),
    ]);
    const [a, s] = await t.app.schedules.list();
    expect(a).toMatchObject({ name: 'a', status: 'ACTIVE' });
    expect(s).toMatchObject({ name: 's', workflowName: 'other', cron: '*/5 * * * *', context: 1, catchUp: 'one' });
    expect(s).toMatchObject({ status: 'PAUSED', lastFiredAt: Date.UTC(2030, 0, 1, 0, 1), nextRunAt: undefined });
    await t.app.schedules.apply([]);
    expect(await t.app.schedules.list()).toHaveLength(2);
  });

  it('keeps one row, its pause and its last tick when ten apps apply the same schedule at once', async () => {
    const database = await backend.newDatabase();
    const given = schedule('s', '* * * * *', report);
    const first = await backend.testApp({ database, workflows: [report], schedules: [given], version: 'v' });
    await first.clock.advance('1m');
    await first.app.schedules.pause('s');
    const apps = [first];
    while (apps.length < 10) {
      const more = { version: 'v', clock: first.clock, executorId: `e${apps.length}` };
      apps.push(await backend.testApp({ database, workflows: [report], ...more }));
    }
    await Promise.all(apps.map(({ app }) => app.schedules.apply([given, schedule('t', '@daily', report)])));
    expect(await first.app.schedules.list()).toMatchObject([
      { name: 's', status: 'PAUSED', lastFiredAt: Date.UTC(2030, 0, 1, 0, 1) },
      { name: 't', status: 'ACTIVE' },
    ]);
    const rows = await tamper(database, 'select schedule_name from workflow_schedules order by 1');
    expect(rows.map((row) => row.schedule_name)).toEqual(['s', 't']);
  });

  it('updates the given settings: workflow, context, time zone, queue, catch-up', async () => {
    const q = queue('q');
    const start = schedule('s', '0 12 * * *', report, { queue: q, context: 'old' });
    const t = await backend.testApp({ workflows: [report, other], queues: [q], schedules: [start] });
    const { update } = t.app.schedules;
    expect(await update('s', { workflow: other })).toMatchObject({ workflowName: 'other', context: 'old' });
    expect(await update('s', { workflow: 'report', context: { n: 1n } })).toMatchObject({ context: { n: 1n } });
    expect(await update('s', { timezone: 'Asia/Tokyo' })).toMatchObject({ nextRunAt: Date.UTC(2030, 0, 1, 3) });
    expect(await update('s', { catchUp: 'all', catchUpLimit: 3 })).toMatchObject({ catchUp: 'all', catchUpLimit: 3 });
    expect(await update('s', { queue: null, context: undefined })).toMatchObject({
      queueName: undefined,
      context: undefined,
      cron: '0 12 * * *',
      timezone: 'Asia/Tokyo',
    });
    expect(await update('s', { queue: 'q', timezone: 'UTC' })).toMatchObject({ queueName: 'q', timezone: 'UTC' });
    expect(await update('s', {})).toMatchObject({ queueName: 'q', catchUp: 'all' });
    await t.clock.advance('12h');
    expect(await t.app.workflows.get('sched-s-2030-01-01T12:00:00.000Z')).toMatchObject({
      name: 'report',
      queueName: 'q',
    });
  });

  it('runs no tick of a pause, neither during the pause nor after it', async () => {
    const schedules = [schedule('s', '* * * * *', report, { catchUp: 'all' })];
    const t = await backend.testApp({ workflows: [report], schedules });
    await t.clock.advance('2m');
    expect(await t.app.schedules.pause('s')).toMatchObject({ status: 'PAUSED', nextRunAt: undefined });
    await t.clock.advance('3m');
    const again = await t.restart();
    await again.clock.advance('3m');
    expect(await again.app.schedules.resume('s')).toMatchObject({ status: 'ACTIVE' });
    await again.clock.advance('2m');
    expect(await minutes(again)).toEqual(['01', '02', '09', '10']);
    expect(await again.app.schedules.resume('s')).toMatchObject({ status: 'ACTIVE' });
  });

  it('deletes a schedule, which stops its ticks and frees its name', async () => {
    const t = await backend.testApp({ workflows: [report], schedules: [schedule('s', '* * * * *', report)] });
    await t.clock.advance('1m');
    await t.app.schedules.delete('s');
    await t.clock.advance('5m');
    expect(await t.app.schedules.get('s')).toBeUndefined();
    expect(await minutes(t)).toEqual(['01']);
    await t.app.schedules.create(schedule('s', '* * * * *', report, { catchUp: 'all' }));
    await t.clock.advance('1m');
    expect(await minutes(t)).toEqual(['01', '07']);
  });

  it('triggers a run at once with the current time, paused or not, and leaves the last tick as it is', async () => {
    const t = await backend.testApp({
      workflows: [report],
      schedules: [schedule('s', '@daily', report, { context: 'c' })],
    });
    await t.clock.advance('90s');
    const handle = await t.app.schedules.trigger<[Date, string]>('s');
    expect(handle.id).toMatch(/^sched-s-trigger-[0-9a-f-]{36}$/);
    expect(await handle.result()).toEqual([new Date('2030-01-01T00:01:30Z'), 'c']);
    await t.app.schedules.pause('s');
    const second = await t.app.schedules.trigger('s');
    expect(second.id).not.toBe(handle.id);
    await second.result();
    expect(await t.app.schedules.get('s')).toMatchObject({ status: 'PAUSED', lastFiredAt: undefined });
  });

  it('triggers a run in a step, but not in a workflow function, where a replay would trigger another', async () => {
    const inStep = workflow('in step', () => run('trigger', async () => (await t.app.schedules.trigger('s')).id));
    const direct = workflow('direct', async () => {
      const late = t.app.schedules.trigger('s');
      await run('something', () => 1);
      return (await late).id;
    });
    const options = { workflows: [report, inStep, direct], schedules: [schedule('s', '@yearly', report)] };
    const t = await backend.testApp(options);
    expect(await failure(direct())).toMatchObject({
      code: 'UNSUPPORTED_CALL',
      message: expect.stringContaining('Call it in a step, or start the workflow itself as a child'),
    });
    expect(await t.app.workflows.list({ name: 'report' })).toEqual([]);
    expect(await inStep()).toMatch(/^sched-s-trigger-/);
    expect(await t.app.workflows.list({ name: 'report' })).toHaveLength(1);
  });

  it('suggests a schedule with a similar name when there is none of the given name', async () => {
    const t = await backend.testApp({ workflows: [report], schedules: [schedule('nightly', '@daily', report)] });
    const { update, pause, resume, trigger, backfill, get } = t.app.schedules;
    const range = { from: '2030-01-01', to: '2030-01-02' };
    const calls: (() => Promise<unknown>)[] = [
      () => update('nigthly', { cron: '@hourly' }),
      () => pause('nigthly'),
      () => resume('nigthly'),
      () => t.app.schedules.delete('nigthly'),
      () => trigger('nigthly'),
      () => backfill('nigthly', range),
      () => backfill('nigthly', { ...range, preview: true }),
    ];
    for (const call of calls) {
      expect(await failure(call())).toMatchObject({
        code: 'SCHEDULE_NOT_FOUND',
        message: expect.stringContaining('Did you mean "nightly"?'),
        details: { name: 'nigthly', known: ['nightly'] },
      });
    }
    expect(await get('nigthly')).toBeUndefined();
    expect(await t.app.workflows.list()).toEqual([]);
  });

  it('refuses everything after a shutdown', async () => {
    const t = await backend.testApp({ workflows: [report], schedules: [schedule('s', '@daily', report)] });
    await t.app.shutdown();
    const { schedules } = t.app;
    const calls: (() => Promise<unknown>)[] = [
      () => schedules.list(),
      () => schedules.get('s'),
      () => schedules.create(schedule('t', '@daily', report)),
      () => schedules.apply([]),
      () => schedules.update('s', {}),
      () => schedules.pause('s'),
      () => schedules.resume('s'),
      () => schedules.delete('s'),
      () => schedules.trigger('s'),
      () => schedules.backfill('s', { from: 0, to: 1 }),
    ];
    for (const call of calls) expect(await failure(call())).toMatchObject({ code: 'APP_CLOSED' });
  });

  it('covers only the schedules of its own app: schedules of another app are invisible and do not tick', async () => {
    const database = await backend.newDatabase();
    const shop = await backend.testApp({ database, name: 'shop', version: 'shop', workflows: [report] });
    const common = { database, clock: shop.clock, executorId: 'b', workflows: [report] };
    const bank = await backend.testApp({ ...common, name: 'bank', version: 'bank' });
    await shop.app.schedules.create(schedule('s', '* * * * *', report));
    await bank.app.schedules.create(schedule('b', '* * * * *', report));
    expect((await shop.app.schedules.list()).map(({ name }) => name)).toEqual(['s']);
    expect(await failure(bank.app.schedules.pause('s'))).toMatchObject({ code: 'SCHEDULE_NOT_FOUND' });
    expect(await failure(bank.app.schedules.create(schedule('s', '@daily', report)))).toMatchObject({
      code: 'SCHEDULE_EXISTS',
    });
    const taken = [schedule('new', '@daily', report), schedule('s', '@daily', report)];
    expect(await failure(bank.app.schedules.apply(taken))).toMatchObject({ code: 'SCHEDULE_CONFLICT' });
    expect(await bank.app.schedules.get('new')).toBeUndefined();
    await bank.crash();
    await shop.clock.advance('2m');
    expect((await shop.app.workflows.list()).map((each) => each.workflowId)).toEqual([tick('01'), tick('02')]);
  });
});
