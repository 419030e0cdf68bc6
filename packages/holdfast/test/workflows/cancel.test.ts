import { expect, it } from 'vitest';
import { context, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, gate, overTime, tamper } from '../support/faults.js';

describeBackends('cancel', (backend) => {
  it('wakes a sleeper at once, with an error that its code can see', async () => {
    const seen: unknown[] = [];
    const wf = workflow('wf', async () => {
      try {
        await sleep('30 days');
      } catch (error) {
        seen.push((error as { code: string }).code);
        throw error;
      } finally {
        seen.push('cleaned up');
      }
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('1h');
    const before = t.clock.now();
    await handle.cancel();
    expect(await failure(handle.result())).toMatchObject({
      code: 'WORKFLOW_CANCELLED',
      details: { workflowId: handle.id },
    });
    await t.clock.advance(0);
    expect(seen).toEqual(['WORKFLOW_CANCELLED', 'cleaned up']);
    expect(t.clock.now()).toBe(before);
    expect(await handle.status()).toMatchObject({ status: 'CANCELLED' });
  });

  it('reaches children and grandchildren, but not detached ones', async () => {
    const leaf = workflow('leaf', () => sleep('1d'));
    const child = workflow('child', async () => {
      await leaf.with({ id: 'detached grandchild', timeout: null }).start();
      await leaf.with({ id: 'grandchild' })();
    });
    const parent = workflow('parent', async () => {
      await leaf.with({ id: 'detached', timeout: null }).start();
      await leaf.with({ id: 'started' }).start();
      await child.with({ id: 'child' })();
    });
    const t = await backend.testApp({ workflows: [parent, child, leaf] });
    const handle = await parent.with({ id: 'parent' }).start();
    await t.clock.advance('1h');
    await handle.cancel();
    const all = await t.app.workflows.list();
    expect(Object.fromEntries(all.map(({ workflowId, status }) => [workflowId, status]))).toEqual({
      parent: 'CANCELLED',
      child: 'CANCELLED',
      grandchild: 'CANCELLED',
      started: 'CANCELLED',
      detached: 'PENDING',
      'detached grandchild': 'PENDING',
    });
    await t.clock.advance('1d');
    expect(await t.app.workflows.get('detached')).toMatchObject({ status: 'SUCCESS' });
  });

  it('aborts context().signal of the workflow and of its running step', async () => {
    const signals: AbortSignal[] = [];
    const wf = workflow('wf', async () => {
      signals.push(context().signal);
      await run('hang', () => {
        signals.push(context().signal);
        return forever();
      });
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance(0);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
    await handle.cancel();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(signals[1]?.reason).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
  });

  it('is never recorded as the result of a step, and no durable call succeeds afterwards', async () => {
    const codes: unknown[] = [];
    const ran: string[] = [];
    const hold = gate();
    const child = workflow('child', async () => 1);
    const wf = workflow('wf', async () => {
      const attempt = async (call: () => Promise<unknown>) => codes.push((await failure(call())).code);
      await attempt(() => run('in flight', () => hold.promise));
      await attempt(() => run('after', () => ran.push('after')));
      await attempt(() => sleep('1s'));
      await attempt(() => child());
      await attempt(() => child.start());
      return 'swallowed';
    });
    const t = await backend.testApp({ workflows: [wf, child] });
    const handle = await wf.start();
    await t.clock.advance(0);
    await handle.cancel();
    hold.open();
    await t.clock.advance('1h');
    expect(codes).toEqual(Array.from({ length: 5 }, () => 'WORKFLOW_CANCELLED'));
    expect(ran).toEqual([]);
    expect(await t.app.workflows.steps(handle.id)).toEqual([]);
    expect(await t.app.workflows.list({ name: 'child' })).toEqual([]);
    expect(await handle.status()).toMatchObject({ status: 'CANCELLED', output: undefined });
  });

  it('ends the pause between two attempts of a step', async () => {
    let ran = 0;
    const failing = () => {
      ran++;
      throw new Error('no');
    };
    const wf = workflow('wf', () => run('fails', failing, { retries: { max: 9, initial: '1h' } }));
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('1m');
    await handle.cancel();
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    await t.clock.advance('10h');
    expect(ran).toBe(1);
  });

  it('ends the wait for a child', async () => {
    const child = workflow('child', () => sleep('1d'));
    const seen: unknown[] = [];
    const parent = workflow('parent', async () => {
      const handle = await child.with({ timeout: null }).start();
      await handle.result().catch((error: { code: string }) => seen.push(error.code));
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const handle = await parent.start();
    await t.clock.advance('1m');
    await handle.cancel();
    await t.clock.advance(0);
    expect(seen).toEqual(['WORKFLOW_CANCELLED']);
  });

  it('reaches a workflow that runs in another app on the same database', async () => {
    const inStep = gate<AbortSignal>();
    const hangs = workflow('hangs', () =>
      run('hang', () => {
        inStep.open(context().signal);
        return forever();
      }),
    );
    const sleeps = workflow('sleeps', () => sleep('30 days'));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [hangs, sleeps], database });
    const other = await backend.testApp({ database, clock: t.clock, executorId: 'other' });
    const results = [await hangs.start(), await sleeps.start()].map((handle) => failure(handle.result()));
    const signal = await inStep.promise;
    const ids = (await other.app.workflows.list()).map(({ workflowId }) => workflowId);
    await other.app.workflows.cancel(ids);
    for (const result of results) {
      expect(await overTime(t.clock, result, 5)).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    }
    expect(signal.aborted).toBe(true);
  });

  it('is noticed at the next checkpoint of a workflow that another program cancelled', async () => {
    const hold = gate();
    const seen: unknown[] = [];
    const wf = workflow('wf', async () => {
      await run('hold', () => hold.promise).catch((error: { code: string }) => seen.push(error.code));
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    const handle = await wf.start();
    await t.clock.advance(0);
    await tamper(database, `update workflow_status set status = 'CANCELLED'`);
    hold.open();
    await t.clock.advance(0);
    expect(seen).toEqual(['WORKFLOW_CANCELLED']);
    expect(await failure(overTime(t.clock, handle.result()))).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
  });

  it('of a child alone is an error that its parent can handle, and that a replay repeats', async () => {
    const child = workflow('child', () => sleep('1d'));
    const parent = workflow('parent', async () => {
      const { code } = await failure(child.with({ id: 'child' })());
      await sleep('1h');
      return code;
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const { id } = await parent.start();
    await t.clock.advance('1m');
    await t.app.workflows.cancel('child');
    await t.clock.advance('1m');
    const again = await t.restart();
    const result = again.app.workflows.handle(id).result();
    expect(await again.clock.runUntil(result)).toBe('WORKFLOW_CANCELLED');
  });

  it('by a workflow of another workflow happens once, and not again in a replay', async () => {
    const victim = workflow('victim', () => sleep('10d'));
    const killer = workflow('killer', async (id: string) => {
      await t.app.workflows.handle(id).cancel();
      await sleep('1d');
    });
    let t = await backend.testApp({ workflows: [victim, killer] });
    const { id } = await victim.start();
    await killer.start(id);
    await t.clock.advance('1m');
    expect(await t.app.workflows.get(id)).toMatchObject({ status: 'CANCELLED' });
    await t.app.workflows.resume(id);
    await t.clock.advance('1m');
    t = await t.restart();
    await t.clock.advance('1m');
    expect(await t.app.workflows.get(id)).toMatchObject({ status: 'PENDING' });
  });

  it('refuses an unknown ID before it cancels any other workflow of the call', async () => {
    const wf = workflow('wf', () => sleep('1d'));
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.with({ id: 'known' }).start();
    const error = await failure(t.app.workflows.cancel(['known', 'unknown']));
    expect(error).toMatchObject({ code: 'WORKFLOW_NOT_FOUND', message: expect.stringContaining('"unknown"') });
    expect(await failure(t.app.workflows.cancel('unknown'))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await handle.status()).toMatchObject({ status: 'PENDING' });
    await t.app.workflows.cancel(['known', 'known']);
    expect(await handle.status()).toMatchObject({ status: 'CANCELLED' });
  });

  it('refuses an unknown ID through a handle too, and a workflow records the refusal', async () => {
    const codes: string[] = [];
    const wf = workflow('wf', async () => {
      const { code } = await failure(t.app.workflows.handle('nobody').cancel());
      codes.push(code as string);
      await sleep('2m');
    });
    let t = await backend.testApp({ workflows: [wf] });
    expect(await failure(t.app.workflows.handle('nobody').cancel())).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    t = await t.restart();
    await overTime(t.clock, t.app.workflows.handle(id).result());
    expect(codes).toEqual(['WORKFLOW_NOT_FOUND', 'WORKFLOW_NOT_FOUND']);
  });

  it('discards the outcome of a step that ignores its signal; resume runs only that step again', async () => {
    const ran: string[] = [];
    const stubborn = gate<string>();
    const wf = workflow('wf', async () => {
      await run('first', () => void ran.push('first'));
      const result = await run('stubborn', () => {
        ran.push('stubborn');
        return ran.length === 2 ? stubborn.promise : 'second time';
      });
      await run('last', () => void ran.push('last'));
      return result;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance(0);
    await handle.cancel();
    stubborn.open('too late');
    await t.clock.advance('1m');
    expect(await handle.status()).toMatchObject({ status: 'CANCELLED', output: undefined });
    expect((await t.app.workflows.steps(handle.id)).map(({ name }) => name)).toEqual(['first']);
    const resumed = await t.app.workflows.resume(handle.id);
    expect(await t.clock.runUntil(resumed.result())).toBe('second time');
    expect(ran).toEqual(['first', 'stubborn', 'stubborn', 'last']);
  });

  it('of a parent with 1,000 children reaches all children except detached ones', async () => {
    const child = workflow('child', () => sleep('1d'));
    const detached = workflow('detached', () => sleep('1d'));
    const parent = workflow('parent', async () => {
      await Promise.all(Array.from({ length: 1000 }, () => child.start()));
      await Promise.all(Array.from({ length: 10 }, () => detached.with({ timeout: null }).start()));
      await sleep('1d');
    });
    const t = await backend.testApp({ workflows: [parent, child, detached] });
    const handle = await parent.start();
    await t.clock.advance('1m');
    const count = async (name: string, status: 'PENDING' | 'CANCELLED') =>
      (await t.app.workflows.list({ name, status })).length;
    expect(await count('child', 'PENDING')).toBe(1000);
    await handle.cancel();
    expect(await count('child', 'CANCELLED')).toBe(1000);
    expect(await count('detached', 'PENDING')).toBe(10);
    await t.clock.advance('1d');
    expect(await count('child', 'CANCELLED')).toBe(1000);
    expect((await t.app.workflows.list({ name: 'detached', status: 'SUCCESS' })).length).toBe(10);
  });
});
