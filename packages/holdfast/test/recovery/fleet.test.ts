import { expect, it } from 'vitest';
import { context, queue, run, sleep, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { crashSeenBy } from '../support/deaths.js';
import { gate, recordingLogger, tamper } from '../support/faults.js';
import { launchFleet, Stage } from '../support/queues.js';

/** Runs a step, waits for an hour, and runs another step. Meanwhile the workflow may move to another process. */
function twoSteps() {
  const ran: string[] = [];
  const wf = workflow('wf', async (n: number) => {
    await run('first', () => void ran.push(`first ${n} on ${context().executorId}`));
    await sleep('1h');
    await run('second', () => void ran.push(`second ${n} on ${context().executorId}`));
    return n;
  });
  return { wf, ran };
}

describeBackends('work of a dead process', (backend) => {
  it('continues in another process once the death is seen, after its last step and with one more attempt', async () => {
    const { wf, ran } = twoSteps();
    const [one, two] = (await launchFleet(backend, 2, { workflows: [wf] })) as [TestApp, TestApp];
    const { id } = await wf.with({ app: one.app }).start(1);
    await one.clock.advance('1m');
    await one.crash();
    await two.clock.advance('1s');
    const taken = { status: 'PENDING', executorId: 'e1', attempts: 2, queueName: '_dbos_internal_queue' };
    expect(await two.app.workflows.get(id)).toMatchObject(taken);
    expect(await two.clock.runUntil(two.app.workflows.handle(id).result())).toBe(1);
    expect(ran).toEqual(['first 1 on e0', 'second 1 on e1']);
    expect(await two.app.workflows.get(id)).toMatchObject({ attempts: 2, status: 'SUCCESS' });
  });

  it('is taken over once, however many processes sweep for it at the same time', async () => {
    const { wf, ran } = twoSteps();
    const options = { workflows: [wf], recovery: { enabled: false } };
    const [dead, ...others] = (await launchFleet(backend, 11, options)) as [TestApp, ...TestApp[]];
    const ids = (await Promise.all(Array.from({ length: 40 }, (_, n) => wf.with({ app: dead.app }).start(n)))).map(
      (handle) => handle.id,
    );
    await dead.clock.advance('1m');
    const [any] = others as [TestApp];
    for (const each of others) await crashSeenBy(each, dead);
    expect((await any.app.workflows.list({ status: 'PENDING', executorId: 'e0' })).length).toBe(40);
    const reports = await Promise.all(others.map(({ app }) => app.recovery.sweep()));
    expect(reports.reduce((sum, { taken }) => sum + taken, 0)).toBe(40);
    expect(new Set(reports.flatMap(({ plan }) => plan.map(({ workflowId }) => workflowId)))).toEqual(new Set(ids));
    const results = ids.map((id) => any.app.workflows.handle(id).result());
    await any.clock.runUntil(Promise.all(results));
    for (const each of await any.app.workflows.list()) expect(each).toMatchObject({ attempts: 2, status: 'SUCCESS' });
    expect(ran.length).toBe(80);
  });

  it('is not taken over from a list of candidates that is out of date', async () => {
    const { wf } = twoSteps();
    const options = { workflows: [wf], recovery: { enabled: false } };
    const [one, two, three] = (await launchFleet(backend, 3, options)) as [TestApp, TestApp, TestApp];
    const { id } = await wf.with({ app: one.app }).start(1);
    await one.clock.advance('1m');
    await one.crash();
    expect((await two.app.recovery.recover(['e0'])).map((handle) => handle.id)).toEqual([id]);
    await two.clock.advance(0);
    expect(await three.app.recovery.recover(['e0'])).toEqual([]);
    expect(await three.app.recovery.recover({ workflowIds: [id] })).toEqual([]);
    await three.clock.advance(0);
    expect(await three.app.workflows.get(id)).toMatchObject({ status: 'PENDING', attempts: 2 });
  });

  it('stays with its own process when another starts under the same ID, until its own process dies', async () => {
    const { wf, ran } = twoSteps();
    const database = await backend.newDatabase();
    const old = await backend.testApp({ workflows: [wf], database, executorId: 'web' });
    const [before] = [await wf.with({ app: old.app }).start(1)];
    await old.clock.advance('1m');
    const next = await backend.testApp({ workflows: [wf], database, executorId: 'web', clock: old.clock });
    const after = await wf.with({ app: next.app }).start(2);
    await next.clock.advance('1m');
    const attempts = { status: 'PENDING', attempts: 1 };
    for (const { id } of [before, after]) expect(await next.app.workflows.get(id)).toMatchObject(attempts);
    await old.crash();
    await next.clock.advance('1s');
    expect(await next.app.workflows.get(before.id)).toMatchObject({ status: 'PENDING', attempts: 2 });
    expect(await next.app.workflows.get(after.id)).toMatchObject(attempts);
    const results = [before, after].map(({ id }) => next.app.workflows.handle(id).result());
    expect(await next.clock.runUntil(Promise.all(results))).toEqual([1, 2]);
    expect(ran.filter((line) => line.startsWith('first'))).toHaveLength(2);
  });

  it('is safe from a former owner that was only thought dead, also after the end of the workflow', async () => {
    const held = gate<string>();
    const caught: string[] = [];
    const wf = workflow('wf', async () => {
      try {
        return await run('step', () => (context().executorId === 'e0' ? held.promise : 'of e1'));
      } catch (error) {
        caught.push(String(error));
        throw error;
      } finally {
        if (context().executorId === 'e0') caught.push('finally');
      }
    });
    const [one, two] = (await launchFleet(backend, 2, { workflows: [wf] })) as [TestApp, TestApp];
    const { id } = await wf.with({ app: one.app }).start();
    await one.clock.advance(0);
    await two.app.recovery.recover({ executorIds: ['e0'] });
    expect(await two.clock.runUntil(two.app.workflows.handle(id).result())).toBe('of e1');
    held.open('of e0');
    await one.clock.advance('1m');
    expect(await two.app.workflows.get(id)).toMatchObject({ status: 'SUCCESS', output: 'of e1', executorId: 'e1' });
    expect(caught).toEqual([]);
  });

  it('starts no more steps in a live process once an operator recovers it, even before a heartbeat', async () => {
    const [hold, begun] = [gate(), [] as string[]];
    let signal: AbortSignal | undefined;
    const wf = workflow('wf', async () => {
      const { executorId } = context();
      if (executorId === 'e0') signal = context().signal;
      await run('first', () => void begun.push(`first on ${executorId}`));
      if (executorId === 'e0') await hold.promise;
      await run('second', () => void begun.push(`second on ${executorId}`));
      return executorId;
    });
    const [one, two] = (await launchFleet(backend, 2, { workflows: [wf] })) as [TestApp, TestApp];
    const { id } = await wf.with({ app: one.app }).start();
    await one.clock.advance(0);
    const beats = () => one.statements.filter((name) => name === 'executors.beat').length;
    const before = beats();
    await two.app.recovery.recover(['e0']);
    // The clock stands still, so no heartbeat is due.
    await expect.poll(() => signal?.aborted).toBe(true);
    expect(beats() - before).toBeLessThanOrEqual(2);
    hold.open();
    expect(await two.clock.runUntil(two.app.workflows.handle(id).result())).toBe('e1');
    expect(begun).toEqual(['first on e0', 'second on e1']);
  });

  it('goes back to its queue, and the limits of the queue hold across all processes', async () => {
    const stage = new Stage();
    const options = { workflows: [stage.wf], queues: [queue('q', { concurrency: 3 })] };
    const fleet = (await launchFleet(backend, 3, options)) as [TestApp, TestApp, TestApp];
    const [one, two] = fleet;
    await stage.wf
      .with({ queue: 'q', app: one.app })
      .startAll(Array.from({ length: 9 }, (_, n) => [`${n}`] as [string]));
    await stage.begins(3);
    const running = await two.app.workflows.list({ status: 'PENDING' });
    const doomed = running.filter((each) => each.executorId === running[0]?.executorId);
    const dying = fleet.find(({ app }) => app.executorId === doomed[0]?.executorId) as TestApp;
    await dying.crash();
    const rest = fleet.find((each) => each !== dying) as TestApp;
    await rest.clock.advance('5s');
    await expect
      .poll(async () => {
        stage.end();
        await rest.clock.advance('5s');
        expect((await rest.app.workflows.list({ status: 'PENDING' })).length).toBeLessThanOrEqual(3);
        return (await rest.app.workflows.list({ status: 'SUCCESS' })).length;
      })
      .toBe(9);
    expect(stage.begun).toHaveLength(9 + doomed.length);
    for (const { workflowId } of doomed) {
      expect(await rest.app.workflows.get(workflowId)).toMatchObject({ queueName: 'q', attempts: 2 });
    }
  });

  it('is never touched if it belongs to another version, and is reported as stranded', async () => {
    const { wf } = twoSteps();
    const database = await backend.newDatabase();
    const logger = recordingLogger();
    const old = await backend.testApp({ workflows: [wf], database, executorId: 'old', version: 'v1' });
    const next = { workflows: [wf], database, executorId: 'new', version: 'v2', clock: old.clock, logger };
    const young = await backend.testApp(next);
    const { app, clock } = young;
    const { id } = await wf.with({ app: old.app }).start(1);
    await clock.advance('1m');
    await crashSeenBy(young, old);
    expect(await app.workflows.get(id)).toMatchObject({ status: 'PENDING', attempts: 1, executorId: 'old' });
    expect(await app.recovery.recover(['old'])).toEqual([]);
    expect(await app.recovery.recover({ workflowIds: [id] })).toEqual([]);
    expect(await app.recovery.sweep()).toMatchObject({ taken: 0, stranded: 1 });
    expect(await app.recovery.sweep({ dryRun: true })).toMatchObject({ taken: 0, stranded: 1 });
    const [listed] = await app.recovery.incomplete();
    expect(listed).toMatchObject({ workflowId: id, executor: 'dead', plan: { action: 'other-version', at: null } });
    expect(logger.matching(/no process of that version is alive/)).toHaveLength(1);
    const back = await backend.testApp({ ...next, executorId: 'newer', version: 'v1' });
    await back.clock.advance('1s');
    expect(await app.workflows.get(id)).toMatchObject({ status: 'PENDING', attempts: 2, executorId: 'newer' });
  });

  it('keeps the row of its executor until all of the work is taken over', async () => {
    const { wf } = twoSteps();
    const late = workflow('late', () => sleep('1d'));
    const database = await backend.newDatabase();
    const common = { database, version: 'v1' };
    const one = await backend.testApp({ ...common, workflows: [wf, late], executorId: 'one' });
    const two = await backend.testApp({ ...common, workflows: [wf], executorId: 'two', clock: one.clock });
    await wf.with({ app: one.app }).start(1);
    await late.with({ app: one.app }).start();
    await one.clock.advance('1m');
    await one.crash();
    const executors = async () =>
      (await tamper(database, 'select executor_id from executors')).map((row) => row.executor_id).sort();
    for (let n = 0; n < 14; n++) await two.clock.advance('5m');
    expect(await executors()).toEqual(['one', 'two']);
    two.app.register(late);
    for (let n = 0; n < 4; n++) await two.clock.advance('5m');
    expect(await executors()).toEqual(['two']);
  });
});
