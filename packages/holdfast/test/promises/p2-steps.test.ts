import { expect, it } from 'vitest';
import { run, sleep, step, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever } from '../support/faults.js';

// P2. A step runs at least once until its outcome is committed, and never again after.
describeBackends('P2 steps', (backend) => {
  it.each([undefined, null])('does not repeat a step that returned %s', async (nothing) => {
    let ran = 0;
    const wf = workflow('wf', async () => {
      const result = await run('nothing', () => {
        ran++;
        return nothing;
      });
      await sleep('1h');
      return result === nothing;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe(true);
    expect(ran).toBe(1);
  });

  it('records the error of a step and does not run the step again', async () => {
    let ran = 0;
    const wf = workflow('wf', async () => {
      const error = await failure(
        run('fails', () => {
          ran++;
          throw new TypeError('no such card');
        }),
      );
      await sleep('1h');
      return `${error.name}: ${error.message}`;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe('TypeError: no such card');
    expect(ran).toBe(1);
  });

  it.each(['before-send', 'after-apply', 'after-reply', 'before-resolve'] as const)(
    'runs a step once if its record was committed and again if not, when the app crashes %s',
    async (phase) => {
      const ran: string[] = [];
      const wf = workflow('wf', async () => {
        await run('a', () => void ran.push('a'));
        await run('b', () => void ran.push('b'));
        return ran.length;
      });
      const probe = await backend.testApp({ workflows: [wf] });
      await wf.with({ id: 'probe' })();
      const statement = probe.statements.indexOf('steps.record') + 1;
      await probe.stop();
      ran.length = 0;

      const t = await backend.testApp({ workflows: [wf], crashAt: { statement, phase } });
      wf.with({ id: 'x' })().catch(() => {});
      await t.crashed;
      const again = await t.restart();
      await again.app.workflows.handle('x').result();
      expect(ran).toEqual(phase === 'before-send' ? ['a', 'a', 'b'] : ['a', 'b']);
    },
  );

  it('keeps the outcomes of parallel steps apart, and repeats only the one that was interrupted', async () => {
    const ran: string[] = [];
    let cut = true;
    const wf = workflow('wf', () =>
      Promise.all([
        run('fast', () => ran.push('fast')),
        run('slow', async () => {
          ran.push('slow');
          if (cut) await forever();
          return 'slow';
        }),
        run('also fast', () => ran.push('also fast')),
      ]),
    );
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance(0);
    cut = false;
    const again = await t.restart();
    expect(await again.app.workflows.handle(id).result()).toEqual([1, 'slow', 3]);
    expect(ran).toEqual(['fast', 'slow', 'also fast', 'slow']);
  });

  it('turns a result that cannot be stored into the error of the step, without a second run', async () => {
    let ran = 0;
    const wf = workflow('wf', async () => {
      const error = await failure(
        run('bad', () => {
          ran++;
          return { order: { items: [1, () => 2] } };
        }),
      );
      await sleep('1h');
      return error;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    const error = await again.clock.runUntil(again.app.workflows.handle<Error>(id).result());
    expect(error).toMatchObject({ code: 'UNSERIALIZABLE' });
    expect(error.message).toContain('The result of step "bad"');
    expect(error.message).toContain('value.order.items[1]');
    expect(ran).toBe(1);
  });

  it('runs a step inside a step inline, as part of the outer one', async () => {
    const inner = step('inner', (n: number) => n + 1);
    const wf = workflow('wf', () => run('outer', async () => (await inner(1)) + (await run('inline', () => 10))));
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    expect(await handle.result()).toBe(12);
    expect((await t.app.workflows.steps(handle.id)).map(({ name }) => name)).toEqual(['outer']);
  });

  it('calls a step outside a workflow as a plain function, without an app', async () => {
    const add = step('add', (a: number, b: number) => a + b, { retries: 5 });
    expect(await add(1, 2)).toBe(3);
    expect(await run('inline', () => 4)).toBe(4);
    const thrower = step('thrower', () => {
      throw new Error('plain');
    });
    await expect(thrower()).rejects.toThrow('plain');
  });

  it('gives the workflow the recorded value, even if the original object changes afterwards', async () => {
    const cart = { items: ['book'] };
    const wf = workflow('wf', async () => {
      const loaded = await run('load', () => cart);
      await run('add', () => void cart.items.push('pen'));
      return loaded.items.length;
    });
    await backend.testApp({ workflows: [wf] });
    expect(await wf()).toBe(1);
  });
});
