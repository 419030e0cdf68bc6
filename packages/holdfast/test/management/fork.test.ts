import { expect, it } from 'vitest';
import { now, random, run, sleep, uuid, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate } from '../support/faults.js';

// A fork runs a workflow again from one of its steps, under another ID.
describeBackends('a fork', (backend) => {
  it('takes over the steps before its start, runs the others again, and leaves the original unchanged', async () => {
    const ran: string[] = [];
    let attempts = 0;
    const wf = workflow('wf', async (to: string) => {
      const a = await run('a', () => ran.push('a'));
      const b = await run('b', () => ran.push('b'));
      await run('c', () => {
        ran.push('c');
        if (attempts++ === 0) throw new Error('broken');
      });
      return [to, a, b, ran.length];
    });
    const t = await backend.testApp({ workflows: [wf] });
    expect(await failure(wf.with({ id: 'x' })('Ada'))).toMatchObject({ message: 'broken' });
    const fork = await t.app.workflows.fork('x', { fromStep: 2 });
    expect(fork.id).not.toBe('x');
    expect(await fork.result()).toEqual(['Ada', 1, 2, 4]);
    expect(ran).toEqual(['a', 'b', 'c', 'c']);
    expect(await t.app.workflows.get('x')).toMatchObject({
      ...{ status: 'ERROR', wasForkedFrom: true, forkedFrom: undefined, attempts: 1 },
    });
    expect(await fork.status()).toMatchObject({
      forkedFrom: 'x',
      wasForkedFrom: false,
      status: 'SUCCESS',
      attempts: 1,
    });
    expect((await t.app.workflows.list({ forkedFrom: 'x' })).map(({ workflowId }) => workflowId)).toEqual([fork.id]);
  });

  it('runs everything again if no step is named, and only the end if all steps are taken over', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async () => {
      await run('a', () => void ran.push('a'));
      await run('b', () => void ran.push('b'));
      return ran.length;
    });
    const t = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'x' })();
    expect(await (await t.app.workflows.fork('x')).result()).toBe(4);
    expect(await (await t.app.workflows.fork('x', { fromStep: 2 })).result()).toBe(4);
  });

  it('of a running workflow takes over what is recorded at that moment, and the original continues', async () => {
    const held = gate();
    const wf = workflow('wf', async () => {
      const a = await run('a', () => 'a');
      await run('hold', () => held.promise);
      return a;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const original = await wf.with({ id: 'x' }).start();
    while ((await t.app.workflows.steps('x')).length === 0) await t.clock.advance(0);
    const fork = await t.app.workflows.fork('x', { fromStep: 1, id: 'f' });
    held.open();
    expect(await original.result()).toBe('a');
    expect(await fork.result()).toBe('a');
    expect((await t.app.workflows.steps('f')).map(({ name }) => name)).toEqual(['a', 'hold']);
  });

  it('repairs a stalled workflow: the new code runs from the first difference', async () => {
    const version = 'v1';
    const ran: string[] = [];
    const step = (name: string) => run(name, () => void ran.push(name));
    const before = workflow('wf', async () => {
      await step('reserve');
      await step('charge');
      await sleep('1h');
    });
    const after = workflow('wf', async () => {
      await step('reserve');
      await step('charge card');
      return 'done';
    });
    const first = await backend.testApp({ workflows: [before], version });
    await before.with({ id: 'x' }).start();
    await first.clock.advance('1m');
    const next = await first.restart({ workflows: [after] });
    const stalled = await failure(next.clock.runUntil(next.app.workflows.handle('x').result()));
    expect(stalled).toMatchObject({ code: 'NON_DETERMINISM' });
    // The error message names the step to fork from.
    const [, fromStep] = /fork\(id, \{ fromStep: (\d+) \}\)/.exec(stalled.message) ?? [];
    const fork = await next.app.workflows.fork('x', { fromStep: Number(fromStep) });
    expect(await next.clock.runUntil(fork.result())).toBe('done');
    expect(ran).toEqual(['reserve', 'charge', 'charge card']);
    expect(await next.app.workflows.get('x')).toMatchObject({ status: 'STALLED' });
  });

  it('sees the same random numbers and time as the original, and so does a fork of the fork', async () => {
    const drawn: unknown[][] = [];
    const wf = workflow('wf', async () => {
      const began = now().getTime();
      const draw = [random(), uuid(), began];
      await run(`toss ${draw[1]} at ${began}`, () => draw);
      const then = now().getTime();
      drawn.push([...draw, then]);
      await run(`after ${uuid()} at ${then}`, () => 0);
      await run('end', () => 0);
      return draw;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const original = await wf.with({ id: 'x' })();
    await t.clock.advance('1d');
    const fork = await t.app.workflows.fork('x', { fromStep: 1 });
    expect(await fork.result()).toEqual(original);
    await t.clock.advance('1d');
    const second = await t.app.workflows.fork(fork.id, { fromStep: 2 });
    expect(await second.result()).toEqual(original);
    expect(drawn[1]).toEqual(drawn[0]);
    expect(drawn[2]).toEqual(drawn[0]);
    // A fork that takes over no steps has nothing to repeat, so it draws its own values.
    const anew = (await (await t.app.workflows.fork('x')).result()) as unknown[];
    expect(anew[1]).not.toBe(original[1]);
    expect(anew[2]).toBe(Number(original[2]) + 2 * 86_400_000);
  });

  it('is created once: repeated requests with its ID return the first fork', async () => {
    let runs = 0;
    const wf = workflow('wf', async () => run('a', () => ++runs));
    const t = await backend.testApp({ workflows: [wf] });
    for (const id of ['x', 'y']) await wf.with({ id })();
    const forks = await Promise.all(Array.from({ length: 5 }, () => t.app.workflows.fork('x', { id: 'f' })));
    expect(await Promise.all(forks.map((fork) => fork.result()))).toEqual([3, 3, 3, 3, 3]);
    expect(await (await t.app.workflows.fork('x', { id: 'f', fromStep: 1 })).result()).toBe(3);
    expect(await failure(t.app.workflows.fork('y', { id: 'f' }))).toMatchObject({
      code: 'WORKFLOW_CONFLICT',
      message: expect.stringContaining('a fork of "x", so a fork of "y" cannot use it'),
      details: { workflowId: 'f', existing: 'wf', forkedFrom: 'y' },
    });
    expect(await failure(t.app.workflows.fork('x', { id: 'y' }))).toMatchObject({ code: 'WORKFLOW_CONFLICT' });
    expect(await failure(t.app.workflows.fork('x', { id: 'x' }))).toMatchObject({ code: 'WORKFLOW_CONFLICT' });
    expect(runs).toBe(3);
  });

  it('is a step if a workflow creates it: it is created once, even if the process crashes', async () => {
    let runs = 0;
    const wf = workflow('wf', async () => run('a', () => ++runs));
    const forker = workflow('forker', async (): Promise<string[]> => {
      const fork = await current.app.workflows.fork('x');
      await fork.result();
      await sleep('1h');
      const lost = await current.app.workflows.fork('nowhere').catch((error) => ({ id: error.code as string }));
      return [fork.id, lost.id];
    });
    let current = await backend.testApp({ workflows: [wf, forker] });
    await wf.with({ id: 'x' })();
    await forker.with({ id: 'op' }).start();
    await current.clock.advance('1m');
    current = await current.restart();
    const result = current.app.workflows.handle('op').result();
    expect(await current.clock.runUntil(result)).toEqual(['op-0', 'WORKFLOW_NOT_FOUND']);
    expect(runs).toBe(2);
    expect((await current.app.workflows.steps('op')).map(({ name }) => name)).toEqual([
      ...['DBOS.forkWorkflow', 'DBOS.getResult', 'DBOS.sleep', 'DBOS.forkWorkflow'],
    ]);
  });

  it('of an unknown workflow, or from an unrecorded step, is a typed error and leaves nothing behind', async () => {
    const wf = workflow('wf', async () => run('a', () => 0));
    const none = workflow('none', async () => 0);
    const t = await backend.testApp({ workflows: [wf, none] });
    await wf.with({ id: 'x' })();
    await none.with({ id: 'bare' })();
    const fork = (id: string, options: object) => failure(t.app.workflows.fork(id, options));
    expect(await fork('X', {})).toMatchObject({ code: 'WORKFLOW_NOT_FOUND', details: { workflowId: 'X' } });
    expect(await fork('x', { fromStep: 2 })).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('from 0 to 1: workflow "x" has recorded steps 0 to 0, but it is 2'),
    });
    expect(await fork('bare', { fromStep: 1 })).toMatchObject({
      message: expect.stringContaining('no recorded steps'),
    });
    expect(await fork('x', { queue: 'nowhere' })).toMatchObject({ code: 'UNKNOWN_QUEUE' });
    const wrong: object[] = [{ fromStep: -1 }, { fromStep: 0.5 }, { fromStep: '1' }, { from: 1 }, { priority: 1 }];
    wrong.push({ fromStep: 2 ** 31 }, { replaceChildren: ['a'] }, { partition: 'p' });
    for (const options of wrong) expect(await fork('x', options)).toMatchObject({ code: 'INVALID_OPTION' });
    const named = [{ a: '' }, { 'a\0': 'b' }, { '\ud800': 'b' }].map((replaceChildren) => ({ replaceChildren }));
    for (const options of [{ id: '' }, { version: '' }, ...named]) {
      expect(await fork('x', options)).toMatchObject({ code: 'INVALID_NAME' });
    }
    for (const options of [{ timeout: 'soon' }, { delay: -1 }]) {
      expect(await fork('x', options)).toMatchObject({ code: 'INVALID_DURATION' });
    }
    expect(await fork('', {})).toMatchObject({ code: 'INVALID_NAME' });
    expect(await t.app.workflows.list()).toHaveLength(2);
    expect(await t.app.workflows.get('x')).toMatchObject({ wasForkedFrom: false });
  });
});
