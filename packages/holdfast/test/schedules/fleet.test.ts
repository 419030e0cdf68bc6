import { expect, it } from 'vitest';
import { context, schedule, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { overTime, tamper } from '../support/faults.js';

/** Tests several processes on one database: each tick runs once, and processes notice the changes of the others. */
describeBackends('schedules of a fleet', (backend) => {
  interface Fleet {
    readonly apps: TestApp[];
    readonly database: string;
    /** How many times each run executed, by workflow ID. */
    readonly ran: Map<string, number>;
    readonly wf: ReturnType<typeof recorder>;
  }

  const recorder = (ran: Map<string, number>) =>
    workflow('wf', async () => {
      const { workflowId } = context();
      ran.set(workflowId, (ran.get(workflowId) ?? 0) + 1);
    });

  async function launchFleet(size: number): Promise<Fleet> {
    const database = await backend.newDatabase();
    const ran = new Map<string, number>();
    const wf = recorder(ran);
    const apps = [await backend.testApp({ database, workflows: [wf] })];
    const clock = apps[0]?.clock as TestApp['clock'];
    while (apps.length < size) {
      apps.push(await backend.testApp({ database, workflows: [wf], clock, executorId: `e${apps.length}` }));
    }
    return { apps, database, ran, wf };
  }

  const turns = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  const reloads = ({ statements }: TestApp): number => statements.filter((name) => name === 'schedules.list').length;

  /** Makes a change, and resolves when the app has read the schedules again. The clock does not move meanwhile. */
  async function noticed<T>(app: TestApp, change: () => Promise<T>): Promise<T> {
    const before = reloads(app);
    const result = await change();
    await expect.poll(() => reloads(app)).toBeGreaterThan(before);
    return result;
  }

  it('run once per tick even if five processes fire it', async () => {
    const { apps, ran, wf, database } = await launchFleet(5);
    const [first] = apps as [TestApp];
    await first.app.schedules.create(schedule('s', '*/5 * * * * *', wf));
    await first.app.schedules.create(schedule('t', '*/7 * * * * *', wf));
    for (const { statements } of apps.slice(1)) await expect.poll(() => statements).toContain('schedules.list');
    await first.clock.advance('2m');
    const runs = await first.app.workflows.list();
    const results = Promise.all(runs.map(({ workflowId }) => first.app.workflows.handle(workflowId).result()));
    await overTime(first.clock, results, 20);
    expect(runs.filter(({ workflowId }) => workflowId.startsWith('sched-s'))).toHaveLength(24);
    expect(runs.filter(({ workflowId }) => workflowId.startsWith('sched-t'))).toHaveLength(18);
    expect([...ran.values()].every((count) => count === 1)).toBe(true);
    const rows = await tamper(database, 'select workflow_uuid as id from workflow_status order by 1');
    expect(rows.map(({ id }) => id)).toEqual([...ran.keys()].sort());
    const tried = apps.map(({ statements }) => statements.filter((name) => name === 'schedules.fire').length);
    expect(Math.min(...tried)).toBeGreaterThan(0);
  });

  it('change at once in every process: by create, update, pause, resume and delete', async () => {
    const { apps, ran, wf } = await launchFleet(2);
    const [here, there] = apps as [TestApp, TestApp];
    const { clock } = here;
    await noticed(there, () => here.app.schedules.create(schedule('s', '30 * * * * *', wf)));
    await noticed(there, () => here.app.schedules.update('s', { cron: '10 * * * * *' }));
    // The clock does not move until only the other process is left, so that process did not learn of the changes
    // from a poll.
    await noticed(there, () => here.app.schedules.create(schedule('paused', '20 * * * * *', wf)));
    await noticed(there, () => here.app.schedules.pause('paused'));
    await noticed(there, () => here.app.schedules.create(schedule('deleted', '40 * * * * *', wf)));
    await noticed(there, () => here.app.schedules.delete('deleted'));
    await noticed(there, () => here.app.schedules.create(schedule('resumed', '50 * * * * *', wf)));
    await noticed(there, () => here.app.schedules.pause('resumed'));
    await noticed(there, () => here.app.schedules.resume('resumed'));
    await here.app.shutdown();
    const before = there.statements.length;
    await clock.advance('59s');
    const ticks = [...ran.keys()].map((id) => id.replace('2030-01-01T00:00:', '')).sort();
    expect(ticks).toEqual(['sched-resumed-50.000Z', 'sched-s-10.000Z']);
    expect(there.statements.slice(before).filter((name) => name === 'schedules.fire')).toHaveLength(2);
  });

  // On SQLite no notification can be lost, because every commit is one.
  it.runIf(backend.name === 'postgres')('change within seconds everywhere if the notification is lost', async () => {
    const { apps, ran, wf, database } = await launchFleet(1);
    const [{ app, clock }] = apps as [TestApp];
    await app.schedules.create(schedule('s', '30 * * * * *', wf));
    await tamper(database, `update workflow_schedules set schedule = '10 * * * * *'`);
    for (let second = 0; second < 10; second++) await clock.advance('1s');
    expect([...ran.keys()]).toEqual(['sched-s-2030-01-01T00:00:10.000Z']);
  });

  /** Races a change with a tick: the change starts a few event loop turns later, and either of them may win. */
  async function race(fleet: Fleet, round: number, name: string, change: (app: TestApp) => Promise<unknown>) {
    const [here, there] = fleet.apps as [TestApp, TestApp];
    await noticed(there, () => here.app.schedules.create(schedule(name, '* * * * * *', fleet.wf)));
    const tick = here.clock.advance('1s');
    await turns(round % 12);
    await change(round % 2 ? here : there);
    const ids = `select workflow_uuid as id from workflow_status where schedule_name = '${name}' order by 1`;
    const before = (await tamper(fleet.database, ids)).map(({ id }) => String(id));
    await tick;
    await here.clock.advance('3s');
    const after = (await tamper(fleet.database, ids)).map(({ id }) => String(id));
    return { before, after };
  }

  it('do not tick once delete() has resolved, whether the tick or the deletion comes first', async () => {
    const fleet = await launchFleet(2);
    let fired = 0;
    for (let round = 0; round < 36; round++) {
      const name = `s${round}`;
      const { before, after } = await race(fleet, round, name, ({ app }) => app.schedules.delete(name));
      expect(after).toEqual(before);
      fired += before.length;
    }
    // Both orders occurred.
    expect(fired).toBeGreaterThan(0);
    expect(fired).toBeLessThan(36);
  });

  it('tick only by the new cron once update() has resolved, and lose none of its ticks', async () => {
    const fleet = await launchFleet(2);
    const [{ app, clock }] = fleet.apps as [TestApp];
    let fired = 0;
    for (let round = 0; round < 36; round++) {
      const name = `s${round}`;
      const [first, ...later] = [1, 2, 3, 4].map(
        (s) => `sched-${name}-${new Date(clock.now() + s * 1000).toISOString()}`,
      );
      const { before, after } = await race(fleet, round, name, (each) =>
        each.app.schedules.update(name, { cron: '*/2 * * * * *' }),
      );
      const even = later.filter((id) => Number(id.slice(-7, -5)) % 2 === 0);
      expect(after.filter((id) => id !== first)).toEqual(even);
      const ofOld = before.filter((id) => Number(id.slice(-7, -5)) % 2 === 1);
      expect(after.filter((id) => Number(id.slice(-7, -5)) % 2 === 1)).toEqual(ofOld);
      fired += ofOld.length;
      await app.schedules.delete(name);
    }
    expect(fired).toBeGreaterThan(0);
    expect(fired).toBeLessThan(36);
  });
});
