import { expect, it } from 'vitest';
import { context, type Queue, queue, run, sleep, type WorkflowHandle, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, overTime, tamper } from '../support/faults.js';

describeBackends('handles and context', (backend) => {
  it('wait for a result no longer than the timeout, and can be used again', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1h');
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    const before = t.clock.now();
    const error = await failure(t.clock.runUntil(handle.result({ timeout: '5m' })));
    expect(error).toMatchObject({ code: 'RESULT_TIMEOUT', details: { workflowId: handle.id, timeoutMs: 300_000 } });
    expect(t.clock.now() - before).toBe(300_000);
    expect(await handle.status()).toMatchObject({ status: 'PENDING' });
    expect(await t.clock.runUntil(handle.result({ timeout: '2h' }))).toBe('done');
  });

  it('refuse a status that does not exist in a list, and show other values if one cannot be read', async () => {
    const wf = workflow('wf', () => run('a', () => 'readable'));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf] });
    expect(await failure(t.app.workflows.list({ status: 'SUCESS' as never }))).toMatchObject({
      code: 'INVALID_OPTION',
    });
    const handle = await wf.start();
    await handle.result();
    await tamper(database, "update operation_outputs set output = '{'");
    expect(await t.app.workflows.steps(handle.id)).toMatchObject([{ name: 'a', output: undefined }]);
    expect(await t.app.workflows.list({ status: 'SUCCESS' })).toMatchObject([{ output: 'readable' }]);
  });

  it('of an unknown workflow fail with WORKFLOW_NOT_FOUND', async () => {
    const t = await backend.testApp();
    const handle = t.app.workflows.handle('nobody');
    expect(await failure(handle.result())).toMatchObject({
      code: 'WORKFLOW_NOT_FOUND',
      details: { workflowId: 'nobody' },
    });
    expect(await failure(handle.status())).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await t.app.workflows.get('nobody')).toBeUndefined();
  });

  it('show the whole state of a workflow', async () => {
    const wf = workflow('wf', async (a: number, b: Date) => ({ a, b }), { timeout: '1h' });
    const t = await backend.testApp({ workflows: [wf], version: 'v1' });
    const now = t.clock.now();
    const handle = await wf.with({ id: 'x', user: 'ada', attributes: { k: 'v' } }).start(1, new Date(5));
    await handle.result();
    expect(await handle.status()).toEqual({
      workflowId: 'x',
      name: 'wf',
      status: 'SUCCESS',
      reason: undefined,
      input: [1, new Date(5)],
      output: { a: 1, b: new Date(5) },
      error: undefined,
      retries: [],
      attempts: 1,
      executorId: 'test',
      version: 'v1',
      appName: 'test',
      createdAt: now,
      updatedAt: now,
      startedAt: now,
      completedAt: now,
      timeoutMs: 3_600_000,
      deadlineAt: now + 3_600_000,
      parentWorkflowId: undefined,
      wasForkedFrom: false,
      queueName: undefined,
      priority: 0,
      dedupId: undefined,
      partition: undefined,
      delayUntil: undefined,
      scheduleName: undefined,
      user: 'ada',
      roles: [],
      attributes: { k: 'v' },
    });
  });

  it('report the state of a workflow that did not end in time', async () => {
    const wf = workflow('wf', async () => sleep('1h'));
    const t = await backend.testApp({ workflows: [wf], version: 'v1', queues: [queue('q')] });
    const message = async (start: Promise<WorkflowHandle<void>>) =>
      (await failure(t.clock.runUntil((await start).result({ timeout: '1s' })))).message;
    expect(await message(wf.start())).toContain('"wf" of version "v1" is running');
    await t.app.queues.pause('q');
    const paused = '"wf" of version "v1" is ENQUEUED on queue "q", which is paused';
    expect(await message(wf.with({ queue: 'q' }).start())).toContain(paused);
  });

  it('record what they saw inside a workflow, so that a replay sees the same', async () => {
    const other = workflow('other', async () => {
      await sleep('1h');
      return 'other';
    });
    const seen: string[] = [];
    const wf = workflow('wf', async (id: string) => {
      const handle = t.app.workflows.handle<string>(id);
      const { status } = await handle.status();
      const timeout = await failure(handle.result({ timeout: '1m' }));
      seen.push(`${status} ${timeout.code} ${await handle.result()}`);
      await sleep('1h');
      return seen.length;
    });
    let t = await backend.testApp({ workflows: [wf, other] });
    const started = await other.start();
    const { id } = await wf.start(started.id);
    await t.clock.advance('90m');
    t = await t.restart();
    expect(await t.clock.runUntil(t.app.workflows.handle(id).result())).toBe(2);
    expect(seen).toEqual(['PENDING RESULT_TIMEOUT other', 'PENDING RESULT_TIMEOUT other']);
  });

  it('list workflows by status, name, parent and time', async () => {
    const ok = workflow('ok', async () => 1);
    const bad = workflow('bad', async () => {
      throw new Error('no');
    });
    const t = await backend.testApp({ workflows: [ok, bad] });
    for (const id of ['a', 'b', 'c']) {
      await ok.with({ id })();
      await t.clock.advance(1000);
    }
    await failure(bad.with({ id: 'd' })());
    const ids = async (options: Parameters<typeof t.app.workflows.list>[0]) =>
      (await t.app.workflows.list(options)).map(({ workflowId }) => workflowId);
    expect(await ids({})).toEqual(['a', 'b', 'c', 'd']);
    expect(await ids({ status: 'ERROR' })).toEqual(['d']);
    expect(await ids({ status: ['ERROR', 'SUCCESS'], newestFirst: true, limit: 2 })).toEqual(['d', 'c']);
    expect(await ids({ name: 'ok', offset: 1 })).toEqual(['b', 'c']);
    expect(await ids({ ids: ['b', 'd', 'zzz'] })).toEqual(['b', 'd']);
    expect(await failure(t.app.workflows.list({ stauts: 'ERROR' } as never))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('Did you mean "status"?'),
    });
  });

  it('list workflows by queue, given by value or by name, including the internal queue', async () => {
    const wf = workflow('wf', async () => 1);
    const mine = queue('mine');
    const t = await backend.testApp({ workflows: [wf], queues: [mine, queue('other')] });
    await wf.with({ id: 'a', queue: mine }).start();
    await wf.with({ id: 'b', queue: 'other' }).start();
    await wf.with({ id: 'c', delay: '1h' }).start();
    const on = async (each: Queue | string) =>
      (await t.app.workflows.list({ queue: each })).map(({ workflowId }) => workflowId);
    expect(await on(mine)).toEqual(['a']);
    expect(await on('mine')).toEqual(['a']);
    expect(await on(queue('other'))).toEqual(['b']);
    expect(await on('_dbos_internal_queue')).toEqual(['c']);
    expect(await on('none')).toEqual([]);
  });

  it('reject with APP_CLOSED when the app is shut down while they wait', async () => {
    const wf = workflow('wf', () => sleep('1d'));
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    const waiting = failure(handle.result());
    await t.clock.advance(0);
    await t.app.shutdown();
    expect(await waiting).toMatchObject({ code: 'APP_CLOSED' });
    expect(await failure(handle.result())).toMatchObject({ code: 'APP_CLOSED' });
  });

  it('wait for a workflow that another app finishes', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1m');
      return context().executorId;
    });
    const database = await backend.newDatabase();
    const one = await backend.testApp({ workflows: [wf], database, executorId: 'one' });
    const two = await backend.testApp({ database, executorId: 'two', clock: one.clock });
    const { id } = await wf.start();
    const waiting = two.app.workflows.handle(id).result();
    expect(await overTime(one.clock, waiting)).toBe('one');
  });

  it('context() names workflow, step, attempt, executor, version and deadline, in workflow and step', async () => {
    const wf = workflow(
      'wf',
      async () => {
        const { signal, ...inWorkflow } = context();
        await run('before', () => {});
        const inStep = await run('inside', () => {
          const { signal: stepSignal, ...rest } = context();
          return { ...rest, aborted: stepSignal.aborted };
        });
        return { inWorkflow: { ...inWorkflow, aborted: signal.aborted }, inStep };
      },
      { timeout: '1h' },
    );
    const t = await backend.testApp({ workflows: [wf], version: 'v1', executorId: 'e1' });
    const common = {
      workflowId: 'x',
      workflowName: 'wf',
      attempt: 1,
      executorId: 'e1',
      version: 'v1',
      deadlineAt: t.clock.now() + 3_600_000,
      user: 'ada',
      roles: ['r'],
      aborted: false,
    };
    expect(await wf.with({ id: 'x', user: 'ada', roles: ['r'] })()).toEqual({
      inWorkflow: { ...common, stepNumber: undefined },
      inStep: { ...common, stepNumber: 1 },
    });
  });

  it('context() shows which attempt of the workflow it is', async () => {
    const attempts: number[] = [];
    const wf = workflow('wf', async () => {
      attempts.push(context().attempt);
      await sleep('1h');
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(id).result());
    expect(attempts).toEqual([1, 2]);
  });

  it('context(), sleep() and patch() outside a workflow are NOT_IN_WORKFLOW', async () => {
    for (const call of [async () => context(), () => sleep('1s')]) {
      expect(await failure(call())).toMatchObject({ code: 'NOT_IN_WORKFLOW' });
    }
  });
});
