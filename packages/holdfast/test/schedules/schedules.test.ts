import { expect, it } from 'vitest';
import { z } from 'zod';
import { context, queue, run, schedule, workflow } from '../../src/index.js';
import { VirtualClock } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { forever, overTime, recordingLogger, tamper } from '../support/faults.js';

describeBackends('schedules', (backend) => {
  const recorder = (name = 'report') => {
    const seen: string[] = [];
    const wf = workflow(name, async (scheduledAt: Date, given?: unknown) => {
      seen.push(`${scheduledAt.toISOString()} ${JSON.stringify(given)}`);
      return scheduledAt;
    });
    return { wf, seen };
  };

  it('run at every tick, with the time of the tick and the context as arguments', async () => {
    const { wf, seen } = recorder();
    const every20 = schedule('every-20', '*/20 * * * *', wf, { context: { region: 'eu' } });
    const t = await backend.testApp({ workflows: [wf], schedules: [every20] });
    await t.clock.advance('59m');
    const context = '{"region":"eu"}';
    expect(seen).toEqual([`2030-01-01T00:20:00.000Z ${context}`, `2030-01-01T00:40:00.000Z ${context}`]);
    await t.clock.advance('1m');
    expect(seen).toHaveLength(3);
  });

  it('give runs the ID sched-<name>-<ISO time>, the name of the schedule, and the given context', async () => {
    const wf = workflow('report', async (at: Date, given: Map<string, Date>) => [at, given, context().workflowId]);
    const database = await backend.newDatabase();
    const given = new Map([['since', new Date(0)]]);
    const schedules = [schedule('nightly', '0 3 * * *', wf, { context: given })];
    const t = await backend.testApp({ database, workflows: [wf], schedules, version: 'v7', name: 'shop' });
    await t.clock.advance('3h');
    const id = 'sched-nightly-2030-01-01T03:00:00.000Z';
    const at = new Date('2030-01-01T03:00:00Z');
    expect(await t.app.workflows.handle(id).result()).toEqual([at, given, id]);
    expect(await t.app.workflows.get(id)).toMatchObject({
      name: 'report',
      status: 'SUCCESS',
      input: [at, given],
      version: 'v7',
      appName: 'shop',
      attempts: 1,
      createdAt: at.getTime(),
      queueName: '_dbos_internal_queue',
    });
    const rows = await tamper(database, 'select workflow_uuid, schedule_name from workflow_status');
    expect(rows).toEqual([{ workflow_uuid: id, schedule_name: 'nightly' }]);
  });

  it('tick in seconds when the cron has six fields, and pass undefined without a context', async () => {
    const { wf, seen } = recorder();
    const t = await backend.testApp({ workflows: [wf], schedules: [schedule('s', '*/15 * * * * *', wf)] });
    await t.clock.advance('45s');
    expect(seen.map((line) => line.slice(17))).toEqual(['15.000Z undefined', '30.000Z undefined', '45.000Z undefined']);
  });

  it('put runs on their queue, where the runs wait for a slot', async () => {
    const slow = workflow('slow', async (at: Date) => {
      await run('hold', () => (at.getUTCMinutes() === 1 ? forever() : undefined));
    });
    const reports = queue('reports', { concurrency: 1 });
    const schedules = [
      schedule('s', '* * * * *', slow, { queue: reports }),
      schedule('t', '2 * * * *', slow, { queue: 'reports' }),
    ];
    const t = await backend.testApp({ workflows: [slow], queues: [reports], schedules });
    await t.clock.advance('2m');
    const runs = await t.app.workflows.list();
    expect(runs.map(({ workflowId, status, queueName }) => [workflowId.slice(6, 24), status, queueName])).toEqual([
      ['s-2030-01-01T00:01', 'PENDING', 'reports'],
      ['s-2030-01-01T00:02', 'ENQUEUED', 'reports'],
      ['t-2030-01-01T00:02', 'ENQUEUED', 'reports'],
    ]);
    await t.app.workflows.cancel(runs[0]?.workflowId ?? '');
    await t.clock.advance(0);
    expect((await t.app.workflows.list()).map(({ status }) => status)).toEqual(['CANCELLED', 'SUCCESS', 'SUCCESS']);
  });

  it('use the format, the schema and the timeout of their workflow', async () => {
    const database = await backend.newDatabase();
    const portable = workflow('portable', async (at: Date, given: { n: number }) => [at, given], {
      serialization: 'portable',
      timeout: '1h',
    });
    const input = z.date().transform((at) => at.getUTCFullYear());
    const checked = workflow('checked', async (year: number) => year, { input });
    const schedules = [
      schedule('p', '1 * * * *', portable, { context: { n: 1 } }),
      schedule('c', '1 * * * *', checked),
    ];
    const t = await backend.testApp({ database, workflows: [portable, checked], schedules });
    await t.clock.advance('1m');
    const tick = '2030-01-01T00:01:00.000Z';
    expect(await t.app.workflows.handle(`sched-p-${tick}`).result()).toEqual([tick, { n: 1 }]);
    expect(await t.app.workflows.handle(`sched-c-${tick}`).result()).toBe(2030);
    const [row] = await tamper(
      database,
      `select inputs, workflow_timeout_ms as timeout from workflow_status where name = 'portable'`,
    );
    expect(row?.inputs).toBe(`{"positionalArgs":["${tick}",{"n":1}]}`);
    expect(Number(row?.timeout)).toBe(3_600_000);
  });

  it('run once when daylight saving time skips their hour, and once when it repeats their hour', async () => {
    const inZone = async (start: string, cron: string) => {
      const { wf, seen } = recorder();
      const clock = new VirtualClock(new Date(start));
      const schedules = [schedule('s', cron, wf, { timezone: 'America/New_York' })];
      const t = await backend.testApp({ workflows: [wf], schedules, clock });
      await t.clock.advance('48h');
      return seen.map((line) => line.slice(0, 16));
    };
    // 2030-03-10 02:00 EST becomes 03:00 EDT at 07:00Z.
    expect(await inZone('2030-03-09T12:00:00Z', '30 2 * * *')).toEqual(['2030-03-10T07:00', '2030-03-11T06:30']);
    // 2030-11-03 02:00 EDT becomes 01:00 EST at 06:00Z.
    expect(await inZone('2030-11-02T12:00:00Z', '30 1 * * *')).toEqual(['2030-11-03T05:30', '2030-11-04T06:30']);
  });

  it('run only at the latest version, even if a process of an older version fires the tick', async () => {
    const ran: string[] = [];
    const make = (version: string) => workflow('report', async () => void ran.push(version));
    const database = await backend.newDatabase();
    const launchAs = (version: string, clock?: VirtualClock) => {
      const wf = make(version);
      const schedules = [schedule('s', '* * * * *', wf)];
      const more = clock ? { clock } : {};
      return backend.testApp({ database, workflows: [wf], schedules, version, executorId: version, ...more });
    };
    const old = await launchAs('old');
    await old.clock.advance('1m');
    expect(ran).toEqual(['old']);
    const newer = await launchAs('new', old.clock);
    await old.clock.advance('1m');
    await overTime(old.clock, newer.app.workflows.handle('sched-s-2030-01-01T00:02:00.000Z').result());
    expect(ran).toEqual(['old', 'new']);
    await newer.crash();
    await old.clock.advance('1m');
    const id = 'sched-s-2030-01-01T00:03:00.000Z';
    expect(await old.app.workflows.get(id)).toMatchObject({ status: 'ENQUEUED', version: undefined, attempts: 0 });
    const again = await launchAs('new', old.clock);
    await overTime(again.clock, again.app.workflows.handle(id).result());
    expect(ran).toEqual(['old', 'new', 'new']);
  });

  it('are changed by a launch of the latest version, but not by a relaunch of an older version', async () => {
    const { wf } = recorder();
    const launchAs = (cron: string, version: string) => ({
      workflows: [wf],
      schedules: [schedule('s', cron, wf)],
      version,
    });
    const first = await backend.testApp(launchAs('1 * * * *', 'old'));
    await first.app.schedules.pause('s');
    await first.clock.advance('1m');
    const second = await first.restart(launchAs('2 * * * *', 'new'));
    expect(await second.app.schedules.get('s')).toMatchObject({ cron: '2 * * * *', status: 'PAUSED' });
    const third = await second.restart(launchAs('1 * * * *', 'old'));
    expect(await third.app.schedules.get('s')).toMatchObject({ cron: '2 * * * *' });
    const without = await third.restart({ workflows: [wf], schedules: [] });
    expect(await without.app.schedules.list()).toHaveLength(1);
  });

  it('leave the ticks to other processes if this one lacks the workflow, and warn once', async () => {
    const { wf, seen } = recorder();
    const logger = recordingLogger();
    const database = await backend.newDatabase();
    const first = await backend.testApp({ database, workflows: [wf], schedules: [schedule('s', '* * * * *', wf)] });
    await first.crash();
    const t = await backend.testApp({ database, clock: first.clock, logger, version: 'web', executorId: 'web' });
    await t.clock.advance('10m');
    expect(await t.app.workflows.list()).toEqual([]);
    expect(logger.matching(/Schedule "s"/)).toEqual([expect.stringMatching(/"report", which is not registered/)]);
    t.app.register(wf);
    await t.clock.advance('1m');
    expect(seen.map((line) => line.slice(11, 16))).toEqual(['00:10', '00:11']);
  });

  it('continue when one of them cannot be read or has refused arguments', async () => {
    const { wf, seen } = recorder();
    const logger = recordingLogger();
    const picky = workflow('picky', async (year: number) => year, {
      input: z.date().transform((at, issue) => {
        if (at.getUTCMinutes() % 2 === 0) issue.addIssue('even');
        return at.getUTCFullYear();
      }),
    });
    const database = await backend.newDatabase();
    const schedules = [
      schedule('good', '* * * * *', wf),
      schedule('unreadable', '* * * * *', wf),
      schedule('no cron', '* * * * *', wf),
      schedule('picky', '* * * * *', picky),
    ];
    const t = await backend.testApp({ database, workflows: [wf, picky], schedules, logger });
    await tamper(database, `update workflow_schedules set context = '{' where schedule_name = 'unreadable'`);
    await tamper(database, `update workflow_schedules set schedule = 'hourly' where schedule_name = 'no cron'`);
    const again = await t.restart({ schedules: [] });
    await again.clock.advance('4m');
    expect(seen).toHaveLength(4);
    expect((await again.app.workflows.list({ name: 'picky' })).map((each) => each.workflowId.slice(-13, -8))).toEqual([
      '00:01',
      '00:03',
    ]);
    expect(logger.matching(/"no cron" does not tick.*"hourly"/)).toHaveLength(1);
    expect(logger.matching(/"unreadable" does not run this time/)).toHaveLength(4);
    expect(logger.matching(/"picky" does not run this time.*even/)).toHaveLength(2);
    const shown = await again.app.schedules.list();
    expect(shown.map(({ name, nextRunAt }) => [name, nextRunAt !== undefined])).toEqual([
      ['good', true],
      ['no cron', false],
      ['picky', true],
      ['unreadable', true],
    ]);
  });
});
