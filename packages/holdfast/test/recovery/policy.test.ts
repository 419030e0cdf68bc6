import { expect, it, vi } from 'vitest';
import {
  connect,
  type RecoveryOptions,
  run,
  type SweepReport,
  sleep,
  type WorkflowOptions,
  workflow,
} from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { crashSeenBy } from '../support/deaths.js';
import { failure, forever, recordingLogger, tamper } from '../support/faults.js';
import { launchFleet } from '../support/queues.js';

const day = 86_400_000;

/** A report with its workflows in a fixed order: workflows that were acted on and others are found separately. */
function sorted({ plan, ...counts }: SweepReport): object {
  return { ...counts, plan: [...plan].sort((a, b) => (a.workflowId < b.workflowId ? -1 : 1)) };
}

describeBackends('the recovery policy', (backend) => {
  /** Returns a dead process with a sleeping workflow, and a second process that has seen the death. */
  async function bereft(options: WorkflowOptions, recovery: RecoveryOptions = {}) {
    const wf = workflow(
      'wf',
      async (n: number) => {
        await run('first', () => n);
        await sleep('30d');
        return n;
      },
      options as WorkflowOptions & { input?: undefined },
    );
    const logger = recordingLogger();
    const database = await backend.newDatabase();
    const all = { workflows: [wf], recovery, logger, database };
    const [one, two] = (await launchFleet(backend, 2, all)) as [TestApp, TestApp];
    const handle = await wf.with({ app: one.app }).start(1);
    return {
      ...{ wf, one, two, logger, database, id: handle.id },
      die: async (age: string) => {
        await one.clock.advance(age);
        await crashSeenBy(two, one);
      },
      info: () => two.app.workflows.get(handle.id),
    };
  }

  it('with autoResume: false lists the work of a dead process and leaves it to an operator', async () => {
    const { two, id, die, info, logger } = await bereft({}, { autoResume: false });
    await die('1m');
    await two.clock.advance('10m');
    expect(await info()).toMatchObject({ status: 'PENDING', executorId: 'e0', attempts: 1 });
    expect(logger.matching(/waits for an operator/)).toHaveLength(1);
    const plan = { action: 'wait-for-operator', at: null, because: 'autoResume is false' };
    expect(await two.app.recovery.incomplete()).toMatchObject([{ workflowId: id, executor: 'dead', plan }]);
    expect(await two.app.recovery.sweep()).toMatchObject({ taken: 0, waiting: 1 });
    const [handle] = await two.app.recovery.recover(['e0']);
    expect(await two.clock.runUntil(handle?.result() as Promise<unknown>)).toBe(1);
    expect(await info()).toMatchObject({ attempts: 2 });
  });

  it('with autoResume: false for one workflow does not delay other workflows, not even at launch', async () => {
    const { two, die, info, database } = await bereft({ recovery: { autoResume: false } });
    const other = workflow('other', async () => 'ran');
    await die('1m');
    const again = await backend.testApp({ workflows: [other], database, clock: two.clock, executorId: 'e0' });
    await again.clock.advance('1m');
    expect(await info()).toMatchObject({ status: 'PENDING', attempts: 1 });
    expect(await other.with({ app: again.app })()).toBe('ran');
  });

  it('stalls workflows that are not resumable, says why, and continues them when they are resumed', async () => {
    const { two, id, die, info, logger } = await bereft({ resumable: false });
    const waiter = failure(two.app.workflows.handle(id).result());
    await die('1m');
    const reason = expect.stringContaining('resumable: false');
    expect(await info()).toMatchObject({ status: 'STALLED', executorId: 'e0', reason });
    expect(await two.clock.runUntil(waiter)).toMatchObject({ code: 'WORKFLOW_STALLED', message: reason });
    expect(logger.matching(/is now STALLED/)[0]).toContain(id);
    await two.clock.advance('1h');
    expect(await info()).toMatchObject({ status: 'STALLED' });
    const handle = await two.app.workflows.resume(id);
    expect(await two.clock.runUntil(handle.result())).toBe(1);
  });

  it('cancels workflows that started longer ago than maxResumeAge, with their children and a reason', async () => {
    const child = workflow('child', () => sleep('30d'));
    const parent = workflow('parent', () => child());
    const options = { workflows: [child, parent], recovery: { maxResumeAge: '2h', autoResume: false } } as const;
    const [one, two] = (await launchFleet(backend, 2, options)) as [TestApp, TestApp];
    const old = await parent.with({ app: one.app }).start();
    await one.clock.advance('90m');
    const young = await child.with({ app: one.app }).start();
    await one.clock.advance('31m');
    await one.crash();
    await two.clock.advance('1s');
    const cancelled = { status: 'CANCELLED', reason: expect.stringContaining('maxResumeAge (2h)') };
    expect(await two.app.workflows.get(old.id)).toMatchObject(cancelled);
    expect(await two.app.workflows.list({ parentWorkflowId: old.id })).toMatchObject([{ status: 'CANCELLED' }]);
    expect(await two.app.workflows.get(young.id)).toMatchObject({ status: 'PENDING', attempts: 1 });
    expect(await failure(two.app.workflows.handle(old.id).result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
  });

  it('resumes a workflow of any age with maxResumeAge: 0, also if the app has a limit', async () => {
    const { two, die, info } = await bereft({ recovery: { maxResumeAge: 0 } }, { maxResumeAge: '2h' });
    await die('10d');
    expect(await info()).toMatchObject({ status: 'PENDING', executorId: 'e1', attempts: 2 });
    const unlimited = await bereft({}, { maxResumeAge: 0 });
    await unlimited.die('10d');
    expect(await unlimited.info()).toMatchObject({ status: 'PENDING', executorId: 'e1', attempts: 2 });
    expect(await two.app.recovery.sweep()).toMatchObject({ cancelled: 0 });
  });

  it("with onNotResumed: 'cancel' cancels what it does not resume, with a reason", async () => {
    const { two, id, die, info, logger } = await bereft({}, { autoResume: false, onNotResumed: 'cancel' });
    await die('1m');
    const reason = expect.stringContaining('autoResume is false');
    expect(await info()).toMatchObject({ status: 'CANCELLED', reason });
    const waited = two.app.workflows.handle(id).result();
    const message = await waited.then(String, (error: Error) => error.message);
    expect(message.match(/workflows\.resume\(id\)/g)).toHaveLength(1);
    expect(logger.matching(/autoResume is false/)).toEqual([message]);
    const handle = await two.app.workflows.resume(id);
    expect(await two.clock.runUntil(handle.result())).toBe(1);
  });

  it('counts the age of a run from its first start, whatever happened since', async () => {
    const { two, die, info, wf, database } = await bereft({ recovery: { maxResumeAge: '3h' } });
    await die('2h');
    expect(await info()).toMatchObject({ status: 'PENDING', attempts: 2 });
    const three = await backend.testApp({ workflows: [wf], database, clock: two.clock, executorId: 'e2' });
    await two.clock.advance('30m');
    await two.app.shutdown();
    await three.clock.advance('40m');
    const [handed] = await three.app.workflows.list();
    expect(handed).toMatchObject({ status: 'PENDING', executorId: 'e2' });
    const again = await three.restart();
    await again.clock.advance('1s');
    expect(await again.app.workflows.list()).toMatchObject([{ status: 'CANCELLED' }]);
  });

  it.each([
    ['dead-letter', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', 'WORKFLOW_DEAD'],
    ['cancel', 'CANCELLED', 'WORKFLOW_CANCELLED'],
  ] as const)('ends a workflow without attempts left as onExceeded: %s says', async (onExceeded, status, code) => {
    const own = workflow('own', () => run('hang', forever), { recovery: { maxAttempts: 0 } });
    const wf = workflow('wf', () => run('hang', forever));
    let t = await backend.testApp({ workflows: [wf, own], recovery: { maxAttempts: 1, onExceeded } });
    const [first, second] = [await wf.start(), await own.start()];
    const seen: unknown[] = [];
    for (let crash = 0; crash < 2; crash++) {
      t = await t.restart();
      for (let n = 0; n < 3; n++) await t.clock.advance('3s');
      for (const { id } of [first, second]) seen.push((await t.app.workflows.get(id))?.status);
    }
    expect(seen).toEqual(['PENDING', status, status, status]);
    expect(await failure(t.app.workflows.handle(first.id).result())).toMatchObject({ code });
  });

  it('is not applied by a process with enabled: false, not even at launch; others take over its work', async () => {
    const wf = workflow('wf', () => sleep('1d'));
    const database = await backend.newDatabase();
    const common = { workflows: [wf], database };
    const first = await backend.testApp({ ...common, executorId: 'a', recovery: { enabled: false } });
    const { id } = await wf.start();
    await first.clock.advance('1m');
    const again = await first.restart();
    for (let n = 0; n < 20; n++) await again.clock.advance('5s');
    expect(await again.app.workflows.get(id)).toMatchObject({ status: 'PENDING', attempts: 1 });
    // The plan is still what the policy says.
    const because = expect.stringMatching(/^its process is dead; recovery is not enabled in this process/);
    expect(await again.app.recovery.incomplete()).toMatchObject([
      { executor: 'dead', plan: { action: 'resume', at: null, because } },
    ]);
    const other = await backend.testApp({ ...common, executorId: 'b', clock: first.clock });
    await other.clock.advance('1s');
    expect(await other.app.workflows.get(id)).toMatchObject({ status: 'PENDING', attempts: 2 });
  });

  it('is shown by a dry run, which changes nothing and plans exactly what the next sweep does', async () => {
    const define = (name: string, options: WorkflowOptions = {}) =>
      workflow(name, () => sleep('30d'), options as WorkflowOptions & { input?: undefined });
    const kinds = [
      define('resumed'),
      define('aside', { resumable: false }),
      define('old', { recovery: { maxResumeAge: '1s' } }),
      define('waits', { recovery: { autoResume: false } }),
      define('given up', { recovery: { maxAttempts: 0 } }),
    ];
    const options = { workflows: kinds, recovery: { enabled: false } };
    const [one, two] = (await launchFleet(backend, 2, options)) as [TestApp, TestApp];
    for (const each of kinds) await each.with({ app: one.app }).start();
    await one.clock.advance('1m');
    await crashSeenBy(two, one);
    const before = await two.app.workflows.list();
    const dry = await two.app.recovery.sweep({ dryRun: true });
    expect(dry).toMatchObject({ taken: 1, deadLettered: 1, cancelled: 1, stalled: 1, waiting: 1, stranded: 0 });
    const actions = Object.fromEntries(dry.plan.map(({ name, action }) => [name, action]));
    const told = { resumed: 'resume', aside: 'stall', old: 'cancel', waits: 'wait-for-operator' };
    expect(actions).toEqual({ ...told, 'given up': 'dead-letter' });
    expect(await two.app.workflows.list()).toEqual(before);
    expect(sorted(await two.app.recovery.sweep())).toEqual(sorted(dry));
    for (let n = 0; n < 3; n++) await two.clock.advance('3s');
    const statuses = Object.fromEntries((await two.app.workflows.list()).map(({ name, status }) => [name, status]));
    expect(statuses).toEqual({
      resumed: 'PENDING',
      aside: 'STALLED',
      old: 'CANCELLED',
      waits: 'PENDING',
      'given up': 'MAX_RECOVERY_ATTEMPTS_EXCEEDED',
    });
  });

  it('is shown by a dry run for children too, and for work that others left or handed over', async () => {
    const child = workflow('child', () => sleep('30d'));
    const parent = workflow('parent', () => child(), { recovery: { maxResumeAge: '1s' } });
    const lone = workflow('lone', () => sleep('30d'));
    const database = await backend.newDatabase();
    const common = { database, workflows: [child, parent, lone], recovery: { enabled: false } };
    const old = await backend.testApp({ ...common, executorId: 'old', version: 'v0' });
    await lone.with({ app: old.app }).start();
    await old.clock.advance('1m');
    await old.app.shutdown();
    const { clock } = old;
    const [one, two] = [
      await backend.testApp({ ...common, executorId: 'e0', version: 'v1', clock }),
      await backend.testApp({ ...common, executorId: 'e1', version: 'v1', clock }),
    ];
    await parent.with({ app: one.app }).start();
    await child.with({ app: one.app }).start();
    const stray = await backend.testApp({ ...common, workflows: [], executorId: 'e3', version: 'v1', clock });
    await clock.advance('1m');
    await crashSeenBy(two, one);
    const dry = await two.app.recovery.sweep({ dryRun: true });
    expect(dry).toMatchObject({ taken: 1, cancelled: 2, waiting: 0, stranded: 1 });
    expect(await stray.app.recovery.sweep({ dryRun: true })).toMatchObject({ taken: 0, waiting: 3, stranded: 1 });
    expect(sorted(await two.app.recovery.sweep())).toEqual(sorted(dry));
  });

  it('does not apply when an operator names a workflow', async () => {
    const { two, id, die, info } = await bereft(
      { recovery: { maxResumeAge: '1s', autoResume: false } },
      { enabled: false },
    );
    await die('1m');
    expect((await two.app.recovery.recover({ workflowIds: [id] })).map((handle) => handle.id)).toEqual([id]);
    await two.clock.advance('1s');
    expect(await info()).toMatchObject({ status: 'PENDING', executorId: 'e1', attempts: 2 });
    // The owner is alive now.
    expect(await two.app.recovery.recover({ workflowIds: [id] })).toEqual([]);
  });

  it('is shown by incomplete(): workflow, executor, age and plan, in the app and in a client', async () => {
    const { one, two, id, wf, die, database } = await bereft({}, { enabled: true, autoResume: false });
    const startedAt = one.clock.now();
    await one.clock.advance('1s');
    const mine = await wf.with({ app: two.app }).start(2);
    await die('1h');
    const [first, second, ...more] = await two.app.recovery.incomplete();
    expect(more).toEqual([]);
    expect(first).toMatchObject({
      workflowId: id,
      name: 'wf',
      executorId: 'e0',
      attempts: 1,
      executor: 'dead',
      startedAt,
    });
    expect(first?.ageMs).toBe(two.clock.now() - startedAt);
    expect([typeof first?.host, typeof first?.lastHeartbeatAt]).toEqual(['string', 'number']);
    const lives = { action: 'none', at: null, because: 'its executor is alive' };
    expect(second).toMatchObject({ workflowId: mine.id, executorId: 'e1', executor: 'alive', plan: lives });
    expect(await two.app.recovery.incomplete({ executorId: 'e1' })).toMatchObject([{ workflowId: mine.id }]);
    expect(await two.app.recovery.incomplete({ limit: 1, offset: 1 })).toMatchObject([{ workflowId: mine.id }]);
    expect(await two.app.recovery.incomplete({ workflowIds: [id], name: 'other' })).toEqual([]);
    const client = await connect({ database, name: 'test' });
    try {
      const seen = await client.recovery.incomplete();
      expect(seen.map(({ workflowId }) => workflowId)).toEqual([id, mine.id]);
      expect(seen[1]).toMatchObject({ executor: 'alive', plan: { action: 'none' } });
      await tamper(database, "update executors set heartbeat_at = 0 where executor_id = 'e0'");
      const because = expect.stringMatching(
        /a live process of version .* applies its policy, which a client does not know/,
      );
      const plan = { action: 'resume', at: null, because };
      expect((await client.recovery.incomplete())[0]).toMatchObject({ executor: 'dead', plan });
    } finally {
      await client.close();
    }
  });

  it.runIf(backend.name === 'postgres')('measures age on the clock of the database', async () => {
    const wf = workflow('wf', () => sleep('30d'), { recovery: { maxResumeAge: '1h' } });
    const database = await backend.newDatabase();
    const common = { workflows: [wf], database, clock: 'real' } as const;
    const one = await backend.testApp({ ...common, executorId: 'a' });
    const { id } = await wf.start();
    await one.crash();
    const hostTime = vi
      .spyOn(Date, 'now')
      .mockImplementation(() => performance.timeOrigin + performance.now() + 2 * day);
    try {
      const two = await backend.testApp({ ...common, executorId: 'a' });
      await expect.poll(async () => (await two.app.workflows.get(id))?.attempts).toBe(2);
      expect(await two.app.workflows.get(id)).toMatchObject({ status: 'PENDING' });
    } finally {
      hostTime.mockRestore();
    }
  });

  it('refuses unknown options and arguments, and says which ones exist', async () => {
    const wf = async () => 1;
    const refused: [() => unknown, RegExp][] = [
      [() => workflow('x', wf, { recovery: { autoresume: true } as never }), /did you mean "autoResume"/i],
      [() => workflow('x', wf, { recovery: { enabled: true } as never }), /no option "enabled"/],
      [() => workflow('x', wf, { resumable: 'no' as never }), /"resumable" must be true or false/],
      [() => workflow('x', wf, { maxRecoveryAttempts: 1, recovery: { maxAttempts: 1 } }), /another name of recovery/],
      [() => workflow('x', wf, { recovery: { onExceeded: 'drop' as never } }), /"dead-letter" or "cancel"/],
      [() => workflow('x', wf, { recovery: { onNotResumed: 'drop' as never } }), /"wait" or "cancel"/],
    ];
    for (const [call, message] of refused) expect(call).toThrow(message);
    const bad: [RecoveryOptions, RegExp][] = [
      [{ staleTimeout: '2s' }, /at least 3 seconds/],
      [{ staleTimeout: 'soon' }, /length of time/],
      [{ maxResumeAge: -1 }, /length of time/],
      [{ maxAttempts: 1.5 }, /whole number/],
      [{ autoResume: 1 as never }, /true or false/],
      [{ stale: 1 } as never, /no option "stale"/],
      [5 as never, /as an object/],
    ];
    for (const [recovery, message] of bad) {
      await expect(backend.testApp({ workflows: [], recovery })).rejects.toThrow(message);
    }
    for (const [name, value] of Object.entries({
      autoResume: false,
      autoresume: false,
      maxAttempts: 3,
      staleTimeout: '9s',
    })) {
      const hint = /is an option of "recovery": give { recovery: { (autoResume|maxAttempts|staleTimeout) } }/;
      await expect(backend.testApp({ workflows: [], [name]: value })).rejects.toThrow(hint);
    }
    const { app } = await backend.testApp({ workflows: [] });
    const calls: [() => Promise<unknown>, RegExp][] = [
      [() => app.recovery.recover({} as never), /executorIds/],
      [() => app.recovery.recover('e0' as never), /as an object/],
      [() => app.recovery.recover({ workflowIds: 'x' as never }), /list of IDs/],
      [() => app.recovery.recover(['']), /executor ID/i],
      [() => app.recovery.sweep({ dry: true } as never), /dryRun/],
      [() => app.recovery.incomplete({ limit: 0 }), /whole number/],
    ];
    for (const [call, message] of calls) {
      const error = await failure(call());
      expect(error.message).toMatch(message);
      expect(['INVALID_OPTION', 'INVALID_NAME']).toContain(error.code);
    }
  });
});
