import { expect, it } from 'vitest';
import { run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, recordingLogger, tamper } from '../support/faults.js';

describeBackends('recovery', (backend) => {
  it('counts attempts: 1 at the first start, one more at each recovery', async () => {
    const wf = workflow('wf', () => sleep('1d'));
    let t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    expect(await t.app.workflows.get(id)).toMatchObject({ attempts: 1 });
    for (const attempts of [2, 3, 4]) {
      t = await t.restart();
      await t.clock.advance(0);
      expect(await t.app.workflows.get(id)).toMatchObject({ attempts, status: 'PENDING' });
    }
  });

  it.each([0, 1, 3])('gives up a workflow that may be recovered %i times, with one attempt more', async (most) => {
    let bodies = 0;
    const logger = recordingLogger();
    const hang = () => {
      bodies++;
      return forever();
    };
    const wf = workflow('wf', () => run('hang', hang), { maxRecoveryAttempts: most });
    let t = await backend.testApp({ workflows: [wf], logger });
    const { id } = await wf.start();
    for (let recovery = 1; recovery <= most; recovery++) {
      t = await t.restart();
      await t.clock.advance(0);
      expect(await t.app.workflows.get(id)).toMatchObject({ status: 'PENDING', attempts: recovery + 1 });
    }
    t = await t.restart();
    await t.clock.advance(0);
    // DBOS counts like this: with a limit of 1, a workflow that is given up shows 3 attempts.
    expect(await t.app.workflows.get(id)).toMatchObject({
      status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED',
      attempts: most + 2,
    });
    expect(bodies).toBe(most + 1);
    expect(await failure(t.app.workflows.handle(id).result())).toMatchObject({ code: 'WORKFLOW_DEAD' });
    expect(logger.matching(/MAX_RECOVERY_ATTEMPTS_EXCEEDED/)[0]).toContain(id);
    t = await t.restart();
    await t.clock.advance('1h');
    expect(bodies).toBe(most + 1);
  });

  it('warns every second about a workflow that is not registered, and runs it once it is', async () => {
    const database = await backend.newDatabase();
    const late = workflow('late', async () => {
      await sleep('1h');
      return 'ran after all';
    });
    const known = workflow('known', async () => {
      await sleep('1h');
      return 'not held up';
    });
    const t = await backend.testApp({ workflows: [late, known], database, version: 'v1' });
    const ids = [(await late.start()).id, (await known.start()).id];
    await t.clock.advance('1m');
    const logger = recordingLogger();
    const again = await t.restart({ workflows: [known], logger });
    const warnings = () => logger.matching(/"late"/);
    expect(warnings()).toHaveLength(1);
    expect(warnings()[0]).toContain(ids[0]);
    expect(warnings()[0]).toMatch(/app\.register\(\)/);
    for (let second = 0; second < 3; second++) await again.clock.advance('1s');
    expect(warnings()).toHaveLength(4);
    expect(await again.clock.runUntil(again.app.workflows.handle(ids[1] as string).result())).toBe('not held up');
    expect(await again.app.workflows.get(ids[0] as string)).toMatchObject({ status: 'PENDING', attempts: 1 });
    again.app.register(late);
    const handle = again.app.workflows.handle(ids[0] as string);
    await again.clock.advance('2s');
    expect(await again.clock.runUntil(handle.result())).toBe('ran after all');
    const count = warnings().length;
    await again.clock.advance('1m');
    expect(warnings()).toHaveLength(count);
  });

  it('fails a workflow whose input is not valid JSON at once, and continues with the others', () => {
    const fault = `update workflow_status set inputs = '{"json":' where workflow_uuid = 'bad'`;
    return endsAs('ERROR', fault, ['UNREADABLE_VALUE']);
  });

  it.each([
    ['without a stored input', 'inputs = null'],
    ['without a stored input, in an unknown format,', `inputs = null, serialization = 'py_pickle'`],
    ['whose input is in an unknown format', `serialization = 'py_pickle'`],
  ])('stalls a workflow %s, and continues with the others', (_, change) => {
    const fault = `update workflow_status set ${change} where workflow_uuid = 'bad'`;
    return endsAs('STALLED', fault, ['WORKFLOW_STALLED', 'UNKNOWN_SERIALIZER']);
  });

  async function endsAs(status: string, fault: string, codes: readonly string[]): Promise<void> {
    let bodies = 0;
    const wf = workflow('wf', async (n: number) => {
      bodies++;
      await sleep('1h');
      return n;
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    await wf.with({ id: 'bad' }).start(1);
    await wf.with({ id: 'good' }).start(2);
    await t.clock.advance('1m');
    await t.crash();
    await tamper(database, fault);
    bodies = 0;
    const again = await t.restart();
    await again.clock.advance('1s');
    expect(await again.app.workflows.get('bad')).toMatchObject({ status });
    const { code } = await failure(again.app.workflows.handle('bad').result());
    expect(codes).toContain(code);
    expect(await again.clock.runUntil(again.app.workflows.handle('good').result())).toBe(2);
    expect(bodies).toBe(1);
  }

  it('stalls only the workflow with a step that cannot be decoded', async () => {
    const wf = workflow('wf', async () => {
      const value = await run('load', () => ({ a: 1 }));
      await sleep('1h');
      return value;
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    await wf.with({ id: 'bad' }).start();
    await wf.with({ id: 'good' }).start();
    await t.clock.advance('1m');
    await t.crash();
    await tamper(
      database,
      `update operation_outputs set output = 'garbage' where workflow_uuid = 'bad' and function_id = 0`,
    );
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle('good').result())).toEqual({ a: 1 });
    const info = await again.app.workflows.get('bad');
    expect(info).toMatchObject({ status: 'STALLED' });
    expect(info?.reason).toContain('"load"');
    expect((await again.app.workflows.list()).map(({ workflowId }) => workflowId).sort()).toEqual(['bad', 'good']);
  });

  it('takes over the work of an unknown executor only on demand', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1h');
      return 'done';
    });
    const database = await backend.newDatabase();
    const shared = { workflows: [wf], database };
    const a = await backend.testApp({ ...shared, executorId: 'a' });
    const { id } = await wf.start();
    await a.clock.advance('1m');
    await a.crash();
    await tamper(database, 'delete from executors');
    const b = await backend.testApp({ ...shared, executorId: 'b', clock: a.clock });
    await b.clock.advance('1m');
    expect(await b.app.workflows.get(id)).toMatchObject({ executorId: 'a', attempts: 1, status: 'PENDING' });
    const handles = await b.app.recovery.recover(['a', 'nobody']);
    expect(handles.map((handle) => handle.id)).toEqual([id]);
    expect(await b.clock.runUntil((handles[0] as { result(): Promise<unknown> }).result())).toBe('done');
    expect(await b.app.workflows.get(id)).toMatchObject({ executorId: 'b', attempts: 2, status: 'SUCCESS' });
  });

  it('reports executors and workflows that it does not know, and does not watch for them afterwards', async () => {
    const wf = workflow('wf', () => sleep('1h'));
    const database = await backend.newDatabase();
    const a = await backend.testApp({ workflows: [wf], database, executorId: 'worker-a', version: 'v1' });
    const left = await wf.start();
    await a.clock.advance('1m');
    await a.crash();
    await tamper(database, 'delete from executors');
    const logger = recordingLogger();
    const b = await backend.testApp({ database, executorId: 'worker-b', version: 'v1', clock: a.clock, logger });
    expect(logger.lines.splice(0)).toEqual([expect.stringMatching(/not in the table of executors: 'worker-a'/)]);
    expect(await b.app.recovery.recover(['worker-c', 'nobody', left.id, 'worker-a'])).toEqual([]);
    expect(logger.lines).toEqual([
      expect.stringMatching(/cannot be recovered: no workflow named "wf" is registered.*then call recover\(\) again/),
      expect.stringMatching(/executor "worker-c" is unknown.*Did you mean "worker-(a|b)"/),
      expect.stringMatching(/executor "nobody" is unknown: it has no unfinished work/),
      expect.stringContaining(`recover({ workflowIds: ['${left.id}'] })`),
    ]);
    logger.lines.length = 0;
    const statements = b.statements.length;
    b.app.register(wf);
    for (let n = 0; n < 12; n++) await b.clock.advance('5s');
    expect(b.statements.slice(statements).filter((name) => /putBack|left/.test(name))).toEqual([]);
    const done = await workflow('x', async () => 1);
    b.app.register(done);
    const ended = await done.with({ app: b.app }).start();
    await ended.result();
    const ids = ['no such', ended.id, (await wf.with({ app: b.app }).start()).id];
    expect(await b.app.recovery.recover({ workflowIds: ids })).toEqual([]);
    expect(logger.lines).toEqual([
      expect.stringMatching(/did not recover workflow "no such": there is no workflow with this ID/),
      expect.stringContaining(`did not recover workflow "${ended.id}": it is SUCCESS`),
      expect.stringMatching(/did not recover workflow .*: its executor is alive/),
    ]);
    expect((await b.app.recovery.recover(['worker-a'])).map(({ id }) => id)).toEqual([left.id]);
  });

  it('recovers more workflows than fit into one page', async () => {
    const wf = workflow('wf', async (n: number) => {
      await sleep('1h');
      return n;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handles = await Promise.all(Array.from({ length: 1100 }, (_, n) => wf.start(n)));
    const again = await t.restart();
    const results = Promise.all(handles.map(({ id }) => again.app.workflows.handle<number>(id).result()));
    expect(await again.clock.runUntil(results)).toEqual(handles.map((_, n) => n));
  });

  it('never recovers the work of another app name', async () => {
    const wf = workflow('wf', () => sleep('1d'));
    const database = await backend.newDatabase();
    const mine = await backend.testApp({ workflows: [wf], database, name: 'mine' });
    const { id } = await wf.start();
    await mine.crash();
    const yours = await backend.testApp({ workflows: [wf], database, name: 'yours', clock: mine.clock });
    await yours.app.recovery.recover(['test']);
    await yours.clock.advance('1m');
    expect(await yours.app.workflows.get(id)).toMatchObject({ status: 'PENDING', attempts: 1, appName: 'mine' });
  });
});
