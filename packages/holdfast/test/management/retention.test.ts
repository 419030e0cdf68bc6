import { expect, it } from 'vitest';
import { launch, queue, type RetentionOptions, run, schedule, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

describeBackends('retention', (backend) => {
  const wf = workflow('wf', async (fails?: boolean) => {
    await run('a', () => 0);
    if (fails) throw new Error('failed');
  });
  const infos: string[] = [];
  const logger = { debug() {}, info: (line: string) => void infos.push(line), warn() {}, error() {} };
  const app = (retention: RetentionOptions, more = {}) =>
    backend.testApp({ workflows: [wf], retention, logger, ...more });
  type Test = Awaited<ReturnType<typeof app>>;
  const left = async (t: Test) => (await t.app.workflows.list()).map(({ workflowId }) => workflowId);
  /** Advances the clock until the service has run. The service pauses between its pages in real time. */
  const look = async (t: Test, until: (ids: string[]) => boolean): Promise<string[]> => {
    for (;;) {
      await t.clock.advance('10m');
      const ids = await left(t);
      if (until(ids)) return ids;
    }
  };

  /** Inserts workflows that ended long ago, without running any. */
  const plant = async (database: string, count: number, parent: string): Promise<void> => {
    const series =
      backend.name === 'sqlite'
        ? `(with recursive s(i) as (select 1 union all select i + 1 from s where i < ${count}) select i from s) s`
        : `generate_series(1, ${count}) s(i)`;
    const columns = 'workflow_uuid, status, name, inputs, created_at, updated_at, completed_at, parent_workflow_id';
    await tamper(
      database,
      `insert into workflow_status (${columns}) select 'w' || i, 'SUCCESS', 'wf', '[]', i, i, i, ${parent} from ${series}`,
    );
  };

  it('deletes workflows that ended longer ago than its limit, in any final status, and logs how many', async () => {
    infos.length = 0;
    const t = await app({ after: '1d' });
    await wf.with({ id: 'old' })();
    await failure(wf.with({ id: 'failed' })(true));
    await wf.with({ id: 'cancelled', delay: '9d' }).start();
    await t.app.workflows.cancel('cancelled');
    await t.clock.advance('20h');
    await wf.with({ id: 'young' })();
    expect(await left(t)).toHaveLength(4);
    await t.clock.advance('4h');
    expect(await look(t, (ids) => ids.length < 4)).toEqual(['young']);
    while (!infos.some((line) => /^Retention: 3 workflows/.test(line))) await t.clock.advance(0);
    expect(await wf.with({ id: 'old' })()).toBeUndefined();
  });

  it('keeps the newest workflows; with both limits, a workflow stays only if both allow it', async () => {
    const t = await app({ keep: 3 });
    for (let i = 0; i < 6; i++) {
      await wf.with({ id: `w${i}` })();
      await t.clock.advance(1);
    }
    expect(await look(t, (ids) => ids.length < 6)).toEqual(['w3', 'w4', 'w5']);
    const next = await t.restart({ retention: { keep: 2, after: '30d' } });
    expect(await look(next, (ids) => ids.length < 3)).toEqual(['w4', 'w5']);
  });

  it('deletes nothing that is unfinished, stalled, or needed by such a workflow', async () => {
    const child = workflow('child', async () => 'child');
    const parent = workflow('parent', async (days: number) => {
      const handle = await child.start();
      await sleep(days * 86_400_000);
      return handle.result();
    });
    const t = await app({ after: '1d' }, { workflows: [wf, child, parent] });
    await parent.with({ id: 'p' }).start(9);
    const ended = await parent.with({ id: 'q' }).start(0);
    await wf.with({ id: 'waiting', delay: '9d' }).start();
    await t.clock.runUntil(ended.result());
    await t.app.workflows.fork('q', { fromStep: 1, id: 'f', delay: '20d' });
    await wf.with({ id: 'gone' })();
    await t.clock.advance('5d');
    const ids = await look(t, (now) => !now.includes('gone'));
    // `q` has ended, but the history of its fork lists the child.
    expect(ids.sort()).toEqual(['f', 'p', 'p-0', 'q', 'q-0', 'waiting']);
    expect(await t.clock.runUntil(t.app.workflows.handle('p').result())).toBe('child');
    await t.app.workflows.cancel('f');
    await t.clock.advance('30d');
    expect(await look(t, (now) => now.length === 0)).toEqual([]);
  });

  it('leaves stalled and dead-lettered workflows to an operator, and the workflows of other applications', async () => {
    const database = await backend.newDatabase();
    const t = await app({ after: '1d' }, { database });
    for (const id of ['stalled', 'dead', 'others', 'gone']) await wf.with({ id })();
    await tamper(database, "update workflow_status set status = 'STALLED' where workflow_uuid = 'stalled'");
    await tamper(
      database,
      "update workflow_status set status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' where workflow_uuid = 'dead'",
    );
    await tamper(database, "update workflow_status set application_name = 'other' where workflow_uuid = 'others'");
    await t.clock.advance('2d');
    expect(await look(t, (ids) => ids.length < 4)).toEqual(['dead', 'others', 'stalled']);
  });

  it('never causes a second run of a tick: the run of an unrecorded tick stays until the next tick', async () => {
    const ran: string[] = [];
    const nightlyRun = workflow('nightly', async (at: Date) => void ran.push(at.toISOString().slice(0, 10)));
    const nightly = schedule('nightly', '0 0 * * *', nightlyRun, { catchUp: 'one' });
    const database = await backend.newDatabase();
    const first = await app({ after: '1h' }, { database, workflows: [nightlyRun], schedules: [nightly] });
    await first.clock.advance('1d');
    await first.crash();
    await tamper(database, 'update workflow_schedules set last_fired_at = null');
    const second = await first.restart();
    await second.clock.advance('3h');
    const third = await second.restart();
    await third.clock.advance('10s');
    expect([ran, await left(third)]).toEqual([['2030-01-02'], ['sched-nightly-2030-01-02T00:00:00.000Z']]);
    await third.clock.advance('1d');
    await look(third, (ids) => ids.length === 0);
    expect(ran).toEqual(['2030-01-02', '2030-01-03']);
  });

  it('leaves a workflow that has just ended, because a caller may be about to repeat its start', async () => {
    const t = await app({ keep: 0, every: '1s' });
    await wf.with({ id: 'x' })();
    await t.clock.advance('50s');
    expect(await left(t)).toEqual(['x']);
    await look(t, (ids) => ids.length === 0);
  });

  it('skips workflows that cannot be deleted, logs them, and deletes the others', async () => {
    const database = await backend.newDatabase();
    const warnings: string[] = [];
    const t = await app(
      { after: '1d' },
      { database, logger: { ...logger, warn: (line: string) => void warnings.push(line) } },
    );
    for (const id of ['a', 'stuck', 'z']) await wf.with({ id })();
    const condition = "when (old.workflow_uuid = 'stuck')";
    if (backend.name === 'sqlite') {
      await tamper(
        database,
        `create trigger no before delete on workflow_status ${condition} begin select raise(abort, 'too much'); end`,
      );
    } else {
      await tamper(
        database,
        "create function no() returns trigger as 'begin raise ''too much''; end' language plpgsql",
      );
      await tamper(
        database,
        `create trigger no before delete on workflow_status for each row ${condition} execute function no()`,
      );
    }
    await t.clock.advance('2d');
    expect(await look(t, (ids) => ids.length < 2)).toEqual(['stuck']);
    await expect
      .poll(() => warnings)
      .toEqual([expect.stringMatching(/^Retention: "stuck" \(.*too much.*\) could not be/)]);
  });

  it('finishes with thousands of workflows, and with several processes at work', async () => {
    const database = await backend.newDatabase();
    const t = await app({ after: '1d' }, { database });
    const clock = t.clock;
    const second = await app({ after: '1d' }, { database, clock, executorId: 'second' });
    // Every second workflow is a child of the one before it.
    await plant(database, 1_200, "case when i % 2 = 0 then 'w' || (i - 1) end");
    await look(t, (ids) => ids.length === 0);
    await second.app.shutdown();
  });

  it('deletes thousands with few statements, and no workflow whose tree has an unfinished one', async () => {
    const database = await backend.newDatabase();
    await plant(database, 4_000, 'null');
    await tamper(
      database,
      "insert into workflow_status (workflow_uuid, status, name, inputs, created_at, updated_at, parent_workflow_id) values ('open', 'DELAYED', 'wf', '[]', 1, 1, 'w7')",
    );
    const t = await app({ after: '1d' }, { database });
    expect((await look(t, (ids) => ids.length < 3)).sort()).toEqual(['open', 'w7']);
    const deletions = t.statements.filter((name) => name === 'workflows.delete-expired').length;
    // SQLite blocks during a deletion and Postgres does not. With fifty workflows each, it would be eighty statements.
    expect(deletions).toBeLessThan(backend.name === 'sqlite' ? 100 : 40);
  });

  it('is off by default, and refuses invalid values', async () => {
    const t = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'x' })();
    await t.clock.advance('9999d');
    expect(await left(t)).toEqual(['x']);
    const refused = async (retention: object) =>
      failure(launch({ name: 'test', database: await backend.newDatabase(), retention }));
    for (const retention of [
      {},
      { keep: -1 },
      { keep: 0.5 },
      { keep: 2 ** 31 },
      { after: '1d', every: 10 },
      { days: 3 },
    ]) {
      expect(await refused(retention)).toMatchObject({ code: 'INVALID_OPTION' });
    }
    expect(await refused({ after: 'soon' })).toMatchObject({ code: 'INVALID_DURATION' });
    expect(await failure(launch({ name: 'test', retention: 'all' as never }))).toMatchObject({
      code: 'INVALID_OPTION',
    });
  });

  it('deletes triggered runs of a schedule like any others', async () => {
    const tick = workflow('tick', async () => 0);
    const t = await app({ after: '1d' }, { workflows: [tick], schedules: [schedule('yearly', '0 0 1 1 *', tick)] });
    for (let i = 0; i < 16; i++) await t.clock.runUntil((await t.app.schedules.trigger('yearly')).result());
    await t.clock.advance('2d');
    expect(await look(t, (ids) => ids.length === 0)).toEqual([]);
  });

  it('keeps workflows that the rate limit of a queue still counts', async () => {
    const queues = [queue('q', { rateLimit: { max: 2, per: '3h' } })];
    const t = await app({ after: '5m', every: '1m' }, { queues });
    const handles = await wf.with({ queue: 'q' }).startAll(Array.from({ length: 4 }, () => []));
    const first = handles.slice(0, 2).map(({ id }) => id);
    await t.clock.runUntil(Promise.all(handles.slice(0, 2).map((handle) => handle.result())));
    for (let i = 0; i < 16; i++) {
      await t.clock.advance('10m');
      expect(await t.app.workflows.list({ status: 'SUCCESS' })).toHaveLength(2);
    }
    expect(await look(t, (ids) => !ids.some((id) => first.includes(id)))).toHaveLength(2);
  });
});
