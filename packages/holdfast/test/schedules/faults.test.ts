import { expect, it } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Engine } from '../../src/engine/engine.js';
import { type Logger, schedule, workflow } from '../../src/index.js';
import type { ScheduleRecord, Schedules } from '../../src/storage/contract/schedules.js';
import { crashPhases, type TestApp, VirtualClock } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { overTime, recordingLogger, tamper } from '../support/faults.js';

const wf = workflow('wf', async (at: Date) => at);
const minutely = schedule('s', '* * * * *', wf);
const firstTick = Date.UTC(2030, 0, 1, 0, 1);
const firstId = 'sched-s-2030-01-01T00:01:00.000Z';

describeBackends('schedules under faults', (backend) => {
  const options = { workflows: [wf], schedules: [minutely] };
  const runs = async ({ app }: TestApp) =>
    (await app.workflows.list()).map(({ workflowId, status }) => [workflowId, status]);

  it('run each tick exactly once, wherever the process dies while a tick fires', async () => {
    const counted = await backend.testApp(options);
    const from = counted.statements.length;
    await counted.clock.advance('1m');
    const names = counted.statements.slice(from);
    expect(names.slice(0, names.indexOf('schedules.markFired') + 1)).toContain('schedules.fire');
    for (let statement = from + 1; statement <= from + names.length; statement++) {
      for (const phase of crashPhases) {
        const t = await backend.testApp({ ...options, crashAt: { statement, phase } });
        await t.clock.advance('1m');
        await t.crash();
        const again = await t.restart();
        await again.clock.advance('1s');
        expect(await runs(again)).toEqual([[firstId, 'SUCCESS']]);
        await again.stop();
      }
    }
  });

  /** Launches an app with some storage methods replaced. */
  async function withStorage(change: (schedules: Schedules) => Partial<Schedules>, logger: Logger = silent) {
    const clock = new VirtualClock();
    const database = await backend.newDatabase();
    const onStart = (engine: Engine): void =>
      void Object.assign(engine.storage.schedules, change({ ...bound(engine) }));
    const app = await launchWith({ name: 'test', database, logger, ...options }, { clock, onStart });
    return { app, clock, database };
  }

  const bound = ({ storage: { schedules } }: Engine): Schedules =>
    Object.fromEntries(
      ['list', 'fire', 'taken', 'markFired'].map((name) => {
        const method = schedules[name as keyof Schedules] as (...args: unknown[]) => unknown;
        return [name, method.bind(schedules)];
      }),
    ) as unknown as Schedules;

  /** Polls in real time, because the virtual clock does not wait for the statements of this app. */
  const until = (check: () => Promise<unknown>) => expect.poll(check);

  it('retry when the answer to a tick is lost, and record the tick even if its run exists already', async () => {
    let lost = 0;
    const { app, clock } = await withStorage((schedules) => ({
      fire: async (params) => {
        const created = await schedules.fire(params);
        if (lost++ === 0) throw Object.assign(new Error('connection lost'), { code: 'ECONNRESET' });
        return created;
      },
    }));
    await clock.advance('1m');
    await until(async () => (await app.workflows.list()).length).toBe(1);
    expect(await app.schedules.get('s')).toMatchObject({ lastFiredAt: undefined });
    await clock.advance('1s');
    await until(async () => (await app.schedules.get('s'))?.lastFiredAt).toBe(firstTick);
    expect(await app.workflows.list()).toHaveLength(1);
    await app.shutdown();
  });

  it('run a retried tick with the changes that were made before the retry', async () => {
    let failed = 0;
    const { app, clock } = await withStorage((schedules) => ({
      fire: async (params) => {
        if (failed++ === 0) throw Object.assign(new Error('connection lost'), { code: 'ECONNRESET' });
        // The retry after the change still uses settings that were read before the change.
        if (failed === 2) await app.schedules.update('s', { context: 'new' });
        return schedules.fire(params);
      },
    }));
    await clock.advance('1m');
    await until(async () => failed).toBe(1);
    await clock.advance('1s');
    await until(async () => (await app.workflows.get(firstId))?.input).toEqual([new Date(firstTick), 'new']);
    expect(failed).toBe(3);
    await app.shutdown();
  });

  it('run a tick that failed with outdated settings as soon as the change is known', async () => {
    let outdated: ScheduleRecord[] | undefined;
    let read: () => Promise<ScheduleRecord[]> = async () => [];
    const { app, clock, database } = await withStorage((schedules) => {
      read = () => schedules.list('test');
      return { list: async () => outdated ?? read() };
    });
    outdated = await read();
    await tamper(database, `update workflow_schedules set context = '"new"'`);
    await clock.advance('1m');
    await clock.advance('3s');
    expect(await app.workflows.list()).toEqual([]);
    outdated = undefined;
    await clock.advance('3s');
    await clock.advance('3s');
    await until(async () => (await app.workflows.get(firstId))?.input).toEqual([new Date(firstTick), 'new']);
    await app.shutdown();
  });

  it('retry while the database is unavailable, until the tick counts as missed', async () => {
    let [down, refused] = [true, 0];
    const logger = recordingLogger();
    const { app, clock } = await withStorage(
      (schedules) => ({
        fire: async (params) => {
          if (down) refused++;
          if (down) throw Object.assign(new Error('no connection'), { code: 'ECONNREFUSED' });
          return schedules.fire(params);
        },
      }),
      logger,
    );
    const seconds = async (n: number): Promise<void> => {
      for (let i = 0; i < n; i++) {
        await clock.advance('1s');
        await app.schedules.list();
      }
    };
    await clock.advance('1m');
    await seconds(5);
    down = false;
    await until(async () => {
      await seconds(1);
      return app.workflows.list();
    }).toHaveLength(1);
    expect(clock.now() - firstTick).toBeLessThan(10_000);
    down = true;
    await clock.advance(firstTick + 60_000 - clock.now());
    await seconds(11);
    down = false;
    await seconds(5);
    expect(await app.workflows.list()).toHaveLength(1);
    expect(refused).toBeGreaterThan(5);
    // At most one line per second of real time.
    expect(logger.matching(/Schedule "s" could not be run and is tried again soon: Error: no connection/)).not.toEqual(
      [],
    );
    await app.shutdown();
  });

  it('continue to tick when the schedules cannot be read for a while', async () => {
    let down = false;
    const { app, clock } = await withStorage((schedules) => ({
      list: async (appName) => {
        if (down) throw new Error('no answer');
        return schedules.list(appName);
      },
    }));
    down = true;
    await clock.advance('59s');
    await clock.advance('1s');
    await until(async () => app.workflows.list()).toHaveLength(1);
    await app.shutdown();
  });

  it('do not lose the first tick of a schedule that DBOS stored, whenever the schedules are read again', async () => {
    for (const at of ['1m', '59s 999ms', '4s']) {
      const database = await backend.newDatabase();
      await (await backend.testApp({ database, ...options })).stop();
      await tamper(
        database,
        'update workflow_schedules set active_since = null, catch_up = null, catch_up_limit = null',
      );
      const t = await backend.testApp({ database, workflows: [wf] });
      await t.clock.advance(at);
      await t.app.schedules.update('s', { catchUp: 'skip' });
      await t.clock.advance('70s');
      expect(await runs(t), at).toContainEqual([firstId, 'SUCCESS']);
      await t.stop();
    }
  });

  it('continue after the database refuses a run', async () => {
    const database = await backend.newDatabase();
    const logger = recordingLogger();
    const t = await backend.testApp({ ...options, database, logger });
    const refuse =
      backend.name === 'sqlite'
        ? `create trigger refuse before insert on workflow_status when new.workflow_uuid = '${firstId}'
           begin select raise(abort, 'not this one'); end`
        : `alter table workflow_status add constraint refuse check (workflow_uuid <> '${firstId}')`;
    await tamper(database, refuse);
    await t.clock.advance('2m');
    await overTime(t.clock, t.app.workflows.handle('sched-s-2030-01-01T00:02:00.000Z').result());
    expect(await t.app.workflows.list()).toHaveLength(1);
    expect(logger.matching(/Schedule "s" could not be run: /)).toHaveLength(1);
  });

  it('warn once when their queue is deleted, and continue when it exists again', async () => {
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [wf], logger });
    await t.app.queues.register('q');
    await t.app.schedules.create(schedule('s', '* * * * *', wf, { queue: 'q' }));
    await t.app.queues.delete('q');
    await t.clock.advance('3m');
    expect(logger.matching(/Schedule "s" does not run while its queue is missing/)).toHaveLength(1);
    await t.app.queues.register('q');
    await t.clock.advance('1m');
    expect(await runs(t)).toEqual([['sched-s-2030-01-01T00:04:00.000Z', 'SUCCESS']]);
    await t.app.queues.update('q', { partition: {} });
    await t.clock.advance('1m');
    expect(await runs(t)).toHaveLength(1);
    expect(logger.matching(/Schedule "s" does not run this time.*no partition key/)).toHaveLength(1);
  });
});
