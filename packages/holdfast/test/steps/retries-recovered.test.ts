import { expect, it } from 'vitest';
import { context, run, sleep, step, transaction, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, forever, gate, overTime, tamper } from '../support/faults.js';
import { counter, openUserData } from '../support/user-data.js';

/** Attempts of a step are counted across all processes that try it. */
describeBackends('attempts of a step', (backend) => {
  it('continue their count after a crash, and their pause ends at the planned time', async () => {
    const attempts: number[] = [];
    const times: number[] = [];
    const wf = workflow('wf', () =>
      run(
        'flaky',
        () => {
          attempts.push(context().attempt);
          times.push(clock.now());
          throw new Error(`failure ${context().attempt}`);
        },
        { retries: { max: 3, initial: '60s', factor: 1, jitter: 0 } },
      ),
    );
    const t = await backend.testApp({ workflows: [wf] });
    const { clock } = t;
    const { id } = await wf.start();
    await clock.advance('61s');
    expect(attempts).toEqual([1, 2]);
    const again = await t.restart();
    const error = await failure(overTime(again.clock, again.app.workflows.handle(id).result()));
    expect(error.message).toBe('failure 4');
    expect(attempts).toEqual([1, 2, 3, 4]);
    expect((times[2] as number) - (times[1] as number)).toBeGreaterThanOrEqual(60_000);
    expect((times[2] as number) - (times[1] as number)).toBeLessThan(75_000);
  });

  it('are used up by a step that kills its process, and end in an error that says so', async () => {
    const attempts: number[] = [];
    const kill = step(
      'kill',
      () => {
        attempts.push(context().attempt);
        return forever();
      },
      { retries: 2 },
    );
    const wf = workflow('wf', async () => {
      const error = await failure(kill());
      return [error.code, error.message, error.details];
    });
    let t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance(100);
    for (let crash = 0; crash < 4; crash++) {
      t = await t.restart();
      await t.clock.advance('30s');
    }
    // The first process died before anything of the step was recorded.
    expect(attempts).toEqual([1, 1, 2, 3]);
    const [code, message, details] = (await overTime(t.clock, t.app.workflows.handle(id).result())) as unknown[];
    expect(code).toBe('STEP_ATTEMPTS_EXHAUSTED');
    expect(message).toMatch(/"kill".*has used up its 3 attempts.*attempts 1, 2, 3.*retry/);
    expect(details).toMatchObject({ workflowId: id, step: 'kill', attempts: 3, interrupted: [1, 2, 3] });
    t = await t.restart();
    expect(await t.app.workflows.handle(id).result()).toEqual([code, message, details]);
  });

  it('are not used up by shutdowns', async () => {
    const attempts: number[] = [];
    let fails = true;
    const wf = workflow('wf', () =>
      run(
        'slow',
        () => {
          attempts.push(context().attempt);
          if (attempts.length === 1) throw new Error('once');
          return fails ? forever() : 'done';
        },
        { retries: { max: 1, initial: '1s', jitter: 0 } },
      ),
    );
    const database = await backend.newDatabase();
    let t = await backend.testApp({ database, workflows: [wf] });
    const { clock } = t;
    const next = async () => {
      await t.app.shutdown();
      t = await backend.testApp({ database, clock, workflows: [wf] });
    };
    const { id } = await wf.start();
    await clock.advance('2s');
    for (let stop = 0; stop < 3; stop++) {
      await next();
      await clock.advance('30s');
    }
    fails = false;
    await next();
    expect(await overTime(clock, t.app.workflows.handle(id).result())).toBe('done');
    expect(attempts).toEqual([1, 2, 2, 2, 2, 2]);
  });

  it('are not used up by cancellations', async () => {
    const attempts: number[] = [];
    let fails = true;
    const slow = () => {
      attempts.push(context().attempt);
      return fails ? forever() : 'done';
    };
    const wf = workflow('wf', async () => {
      await run('first', () => {});
      return run('slow', slow, { retries: 1 });
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('1s');
    for (let n = 0; n < 4; n++) {
      await handle.cancel();
      fails = n < 3;
      await t.app.workflows.resume(handle.id);
      await t.clock.advance('1s');
    }
    expect(await overTime(t.clock, handle.result())).toBe('done');
    expect(attempts).toEqual([1, 1, 1, 1, 1]);
  });

  it('are counted separately for each step, and again from 1 after a retry of the workflow', async () => {
    const attempts: string[] = [];
    let fails = true;
    const flaky = (name: string) =>
      run(
        name,
        () => {
          attempts.push(`${name} ${context().attempt}`);
          if (fails) throw new Error('no');
        },
        { retries: { max: 1, initial: '1s', jitter: 0 } },
      );
    const wf = workflow('wf', () => Promise.allSettled([flaky('a'), flaky('b')]));
    const failing = workflow('failing', () => flaky('c'));
    const t = await backend.testApp({ workflows: [wf, failing] });
    await t.clock.runUntil((await wf.start()).result());
    expect(attempts.sort()).toEqual(['a 1', 'a 2', 'b 1', 'b 2']);
    attempts.length = 0;
    const handle = await failing.start();
    await failure(t.clock.runUntil(handle.result()));
    await t.app.workflows.retry(handle.id);
    await t.clock.advance(100);
    fails = false;
    await t.clock.runUntil(handle.result());
    expect(attempts).toEqual(['c 1', 'c 2', 'c 1', 'c 2']);
  });

  it('of an execution that has lost its workflow do not count, and no further attempt follows', async () => {
    const begun = gate();
    const goOn = gate();
    let runs = 0;
    const wf = workflow('wf', async () => {
      await sleep(10);
      return run(
        'step',
        async () => {
          if (++runs > 1) return 'second';
          begun.open();
          await goOn.promise;
          throw new Error('late');
        },
        { retries: { max: 5, initial: 1 } },
      );
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance(100);
    await begun.promise;
    await handle.cancel();
    await t.app.workflows.resume(handle.id);
    goOn.open();
    expect(await t.clock.runUntil(handle.result())).toBe('second');
    expect(runs).toBe(2);
  });

  it('cost one statement for each failure that is retried, and none without a retry', async () => {
    const wf = workflow('wf', async (failures: number) => {
      let left = failures;
      await run('step', () => left-- > 0 && Promise.reject(new Error('no')), { retries: { max: 3, initial: 1 } });
      await run('other', () => {}, { retries: 3 });
    });
    const t = await backend.testApp({ workflows: [wf], suspendAtOnce: false });
    const cost = async (failures: number) => {
      const from = t.statements.length;
      await t.clock.runUntil((await wf.start(failures)).result());
      return t.statements.slice(from).filter((name) => name.startsWith('steps.'));
    };
    expect(await cost(0)).toEqual(['steps.record', 'steps.record']);
    expect(await cost(2)).toEqual(['steps.attempt', 'steps.attempt', 'steps.record', 'steps.record']);
  });

  it('cost one statement before each attempt of a recovery, and none for steps without retries', async () => {
    let hang = true;
    const wf = workflow('wf', async () => {
      await run('first', () => {});
      await run('hang', () => (hang ? forever() : undefined));
      await run('once', () => {}, { retries: 1 });
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance(100);
    hang = false;
    const again = await t.restart();
    await overTime(again.clock, again.app.workflows.handle(id).result());
    const steps = again.statements.filter((name) => /^steps\.(attempt|record)/.test(name));
    expect(steps).toEqual(['steps.record', 'steps.attempt', 'steps.record']);
  });

  it('count as failed, not as interrupted, if more were made than are allowed now', async () => {
    const flaky = (max: number) =>
      workflow('wf', () =>
        run('flaky', () => Promise.reject(new Error('no')), { retries: { max, initial: '60s', factor: 1, jitter: 0 } }),
      );
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, version: 'v', workflows: [flaky(5)] });
    const { id } = await flaky(5).start();
    await t.clock.advance('130s');
    await t.app.shutdown();
    const again = await backend.testApp({ database, clock: t.clock, version: 'v', workflows: [flaky(1)] });
    const error = await failure(overTime(again.clock, again.app.workflows.handle(id).result()));
    expect(error).toMatchObject({ code: 'STEP_ATTEMPTS_EXHAUSTED', details: { attempts: 2, interrupted: [] } });
    expect(error.message).toMatch(
      /used up its 2 attempts, and has no result: the attempts failed while the code allowed more attempts/,
    );
  });

  it('do not count as used up before a committed transaction was looked for', async () => {
    const database = await backend.newDatabase();
    const { url, datasource, add } = await openUserData(backend, plainest[backend.name]);
    const pay = transaction(datasource, 'pay', (tx) => add(tx, 'ada', 1).then(() => 'paid'), { retries: 1 });
    let waits = true;
    const wf = workflow('wf', async () => {
      const paid = await pay();
      if (waits) await run('wait', () => forever());
      return paid;
    });
    let t = await backend.testApp({ database, workflows: [wf] });
    await wf.with({ id: 'w' }).start();
    await t.clock.advance(100);
    expect(await counter(url, 'ada')).toBe(1);
    // Simulates crashes: one before the checkpoint, and two more before any process could look for a commit.
    await tamper(database, "delete from operation_outputs where workflow_uuid = 'w'");
    await tamper(
      database,
      "insert into step_attempts (workflow_uuid, function_id, attempt, token, interrupted) values ('w', 0, 2, 'x', '1')",
    );
    waits = false;
    t = await t.restart();
    expect(await overTime(t.clock, t.app.workflows.handle('w').result())).toBe('paid');
    expect(await counter(url, 'ada')).toBe(1);
  });
});
