import { expect, it } from 'vitest';
import { context, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate, overTime } from '../support/faults.js';

// P4. A terminal outcome never changes except by explicit resume, fork or delete. Every observer gets the same result.
describeBackends('P4 outcomes', (backend) => {
  it('runs one body for 50 concurrent starts of one ID and gives all of them its result', async () => {
    let bodies = 0;
    const wf = workflow('wf', async (n: number) => {
      bodies++;
      return run('draw', () => ({ n, drawn: Math.random() }));
    });
    await backend.testApp({ workflows: [wf] });
    const calls = Array.from({ length: 50 }, (_, n) => wf.with({ id: 'same' })(n));
    const results = await Promise.all(calls);
    expect(bodies).toBe(1);
    expect(new Set(results.map((result) => JSON.stringify(result))).size).toBe(1);
  });

  it('runs one body for concurrent starts of one ID in two apps on one database', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => {
      bodies++;
      return run('draw', () => Math.random());
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    const other = await backend.testApp({ workflows: [wf], database, clock: t.clock, executorId: 'other' });
    const apps = [t.app, other.app];
    const calls = Array.from({ length: 20 }, (_, n) => wf.with({ id: 'same', app: apps[n % 2] as object })());
    const results = await overTime(t.clock, Promise.all(calls));
    expect(bodies).toBe(1);
    expect(new Set(results).size).toBe(1);
  });

  it('answers a start under the ID of a finished workflow with its result, without running anything', async () => {
    let bodies = 0;
    const wf = workflow('wf', async (input: string) => {
      bodies++;
      return input;
    });
    const t = await backend.testApp({ workflows: [wf] });
    expect(await wf.with({ id: 'x' })('first')).toBe('first');
    expect(await wf.with({ id: 'x' })('second')).toBe('first');
    const again = await t.restart();
    expect(await wf.with({ id: 'x' })('third')).toBe('first');
    expect(bodies).toBe(1);
    expect(await again.app.workflows.get('x')).toMatchObject({ attempts: 1, input: ['first'] });
  });

  it('refuses an ID of another workflow with WORKFLOW_CONFLICT, inside and outside a workflow', async () => {
    const mine = workflow('mine', async () => 1);
    const yours = workflow('yours', async () => 2);
    const parent = workflow('parent', () => failure(yours.with({ id: 'x' })()));
    await backend.testApp({ workflows: [mine, yours, parent] });
    await mine.with({ id: 'x' })();
    const error = await failure(yours.with({ id: 'x' }).start());
    expect(error).toMatchObject({
      code: 'WORKFLOW_CONFLICT',
      message: 'Workflow ID "x" belongs to "mine", so "yours" cannot use it. Choose another ID.',
      details: { workflowId: 'x', existing: 'mine', requested: 'yours' },
    });
    expect(await parent()).toMatchObject({ code: 'WORKFLOW_CONFLICT' });
    expect(await mine.with({ id: 'x' })()).toBe(1);
  });

  it('leaves a finished workflow finished when it is cancelled late', async () => {
    const greet = workflow('greet', async () => 'hello');
    const fails = workflow('fails', async () => {
      throw new Error('no');
    });
    const t = await backend.testApp({ workflows: [greet, fails] });
    const handle = await greet.start();
    const failed = await fails.start();
    await Promise.all([handle.result(), failure(failed.result())]);
    await t.app.workflows.cancel([handle.id, failed.id]);
    await handle.cancel();
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS', output: 'hello' });
    expect(await failed.status()).toMatchObject({ status: 'ERROR' });
    expect(await handle.result()).toBe('hello');
  });

  it('does not start a finished workflow again on resume', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => ++bodies);
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await handle.result();
    const resumed = await t.app.workflows.resume(handle.id);
    await t.clock.advance('5s');
    expect(await resumed.result()).toBe(1);
    expect(bodies).toBe(1);
  });

  it('gives every observer the same error: caller, handle, parent, another app and a later process', async () => {
    const fails = workflow('fails', async () => {
      const cause = Object.assign(new RangeError('declined'), { code: 'CARD_DECLINED' });
      throw Object.assign(new TypeError('payment failed', { cause }), { code: 'E42', attempt: 3 });
    });
    const parent = workflow('parent', async () => failure(fails.with({ id: 'child' })()));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [fails, parent], database });
    const other = await backend.testApp({ database, clock: t.clock, executorId: 'other' });
    const expected = { name: 'TypeError', message: 'payment failed', code: 'E42', attempt: 3 };
    const seen = [
      await failure(fails.with({ id: 'x' })()),
      await failure(t.app.workflows.handle('x').result()),
      await parent(),
      await failure(overTime(t.clock, other.app.workflows.handle('x').result())),
      await failure((await t.restart()).app.workflows.handle('x').result()),
    ];
    for (const error of seen) {
      expect(error).toBeInstanceOf(TypeError);
      expect(error).toMatchObject(expected);
      expect(error.cause).toBeInstanceOf(RangeError);
      expect(error.cause).toMatchObject({ message: 'declined', code: 'CARD_DECLINED' });
    }
  });

  it('keeps a thrown value that is not an Error', async () => {
    const wf = workflow('wf', async () => {
      const caught = await run('throws text', () => Promise.reject('just a text')).catch((error: unknown) => error);
      return Promise.reject({ reason: caught });
    });
    await backend.testApp({ workflows: [wf] });
    await expect(wf()).rejects.toEqual({ reason: 'just a text' });
  });

  it('completes a workflow that returns while its steps run, aborts their signal and drops late results', async () => {
    const late = gate<string>();
    let signal: AbortSignal | undefined;
    const wf = workflow('wf', async () => {
      void run('late', () => {
        signal = context().signal;
        return late.promise;
      });
      await run('quick', () => {});
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    expect(await handle.result()).toBe('done');
    expect(signal?.aborted).toBe(true);
    late.open('too late');
    await t.clock.advance('1m');
    expect((await t.app.workflows.steps(handle.id)).map(({ name }) => name)).toEqual(['quick']);
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS', output: 'done' });
  });

  it('completes even if a step that was not awaited fails, without an unhandled rejection', async () => {
    const wf = workflow('wf', async () => {
      void run('fails', () => Promise.reject(new Error('nobody listens')));
      void sleep('1h');
      await run('quick', () => {});
      await run('quick again', () => {});
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf] });
    expect(await wf()).toBe('done');
    await t.clock.advance('2h');
  });
});
