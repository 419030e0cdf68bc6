import { expect, it } from 'vitest';
import { z } from 'zod';
import { run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever } from '../support/faults.js';

describeBackends('schemas', (backend) => {
  const order = z.object({ id: z.string(), quantity: z.coerce.number().int().min(1).default(1) });

  it('refuse input that does not match, before anything is stored or run', async () => {
    let bodies = 0;
    const wf = workflow('checkout', async (_: unknown) => ++bodies, { input: order });
    const t = await backend.testApp({ workflows: [wf] });
    const error = await failure(wf.start({ id: 7, quantity: 0 } as never));
    expect(error).toMatchObject({ code: 'INVALID_INPUT', details: { issues: expect.any(Array) } });
    expect(error.message).toMatch(/The input of workflow "checkout" does not match its schema: id: .*; quantity: /);
    expect(await failure(wf(undefined as never))).toMatchObject({ code: 'INVALID_INPUT' });
    expect(await t.app.workflows.list()).toEqual([]);
    expect(bodies).toBe(0);
  });

  it('give the workflow the transformed value, the same in a replay', async () => {
    const seen: unknown[] = [];
    const wf = workflow(
      'checkout',
      async (input: unknown, second: string) => {
        seen.push([input, second]);
        await sleep('1h');
        return input;
      },
      { input: order.transform((value) => ({ ...value, at: new Date(0) })) },
    );
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start({ id: 'a', quantity: '3', junk: true } as { id: string }, 'untouched');
    await t.clock.advance('1m');
    const again = await t.restart();
    const expected = { id: 'a', quantity: 3, at: new Date(0) };
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toEqual(expected);
    expect(seen).toEqual([
      [expected, 'untouched'],
      [expected, 'untouched'],
    ]);
    expect(await again.app.workflows.get(id)).toMatchObject({ input: [expected, 'untouched'] });
  });

  it('may be asynchronous', async () => {
    const taken = z.string().refine(async (name) => name !== 'taken', 'is taken');
    const wf = workflow('wf', async (name) => name, {
      input: taken,
      output: z.string().transform(async (s) => `${s}!`),
    });
    await backend.testApp({ workflows: [wf] });
    expect(await wf('free')).toBe('free!');
    expect(await failure(wf('taken'))).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('is taken'),
    });
  });

  it('fail a workflow whose output does not match, and otherwise store the transformed output', async () => {
    const wf = workflow('wf', async (total: number) => ({ total }), {
      output: z.object({ total: z.number().transform((n) => n.toFixed(2)) }),
    });
    const t = await backend.testApp({ workflows: [wf] });
    expect(await wf.with({ id: 'good' })(3)).toEqual({ total: '3.00' });
    const error = await failure(wf.with({ id: 'bad' })('three' as never));
    expect(error).toMatchObject({ code: 'INVALID_OUTPUT', message: expect.stringContaining('total: ') });
    expect(await t.app.workflows.get('bad')).toMatchObject({ status: 'ERROR' });
  });

  it('refuse the input of a child with an error that its parent sees and replays', async () => {
    const child = workflow('child', async (input: unknown) => input, { input: order });
    const parent = workflow('parent', async () => {
      const { code } = await failure(child({ id: 1 } as never));
      await sleep('1h');
      return code;
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const { id } = await parent.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe('INVALID_INPUT');
    expect(await again.app.workflows.list({ name: 'child' })).toEqual([]);
  });

  it('do not change a replay with unawaited work, even if they are slow', async () => {
    let crash = true;
    const output = z.string().transform(async (text) => {
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      if (crash) await forever();
      return text;
    });
    const wf = workflow(
      'wf',
      async () => {
        void (async () => {
          for (let n = 0; n < 10; n++) await run(`unawaited ${n}`, () => n);
        })();
        await run('awaited', () => {});
        return 'done';
      },
      { output },
    );
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    crash = false;
    const again = await t.restart();
    expect(await again.app.workflows.handle(id).result()).toBe('done');
  });
});
