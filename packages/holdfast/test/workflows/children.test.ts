import { expect, it } from 'vitest';
import { context, run, sleep, step, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever } from '../support/faults.js';

describeBackends('child workflows', (backend) => {
  it('names a child after its parent and the step that started it', async () => {
    const child = workflow('child', async () => context().workflowId);
    const parent = workflow('parent', async () => {
      await run('a', () => {});
      const called = await child();
      const started = await child.start();
      return [called, started.id, await started.result()];
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    expect(await parent.with({ id: 'p' })()).toEqual(['p-1', 'p-3', 'p-3']);
    const steps = await t.app.workflows.steps('p');
    expect(steps.map(({ stepNumber, name, childWorkflowId }) => [stepNumber, name, childWorkflowId])).toEqual([
      [0, 'a', undefined],
      [1, 'child', 'p-1'],
      [2, 'DBOS.getResult', 'p-1'],
      [3, 'child', 'p-3'],
      [4, 'DBOS.getResult', 'p-3'],
    ]);
    expect(await t.app.workflows.list({ parentWorkflowId: 'p' })).toHaveLength(2);
  });

  it('runs each child once even if the parent crashes while it waits', async () => {
    const bodies: string[] = [];
    const child = workflow('child', async (name: string) => {
      bodies.push(`${name} begins`);
      await sleep('1h');
      return run('end', () => {
        bodies.push(`${name} ends`);
        return name;
      });
    });
    const parent = workflow('parent', () => Promise.all([child('a'), child('b')]));
    const t = await backend.testApp({ workflows: [parent, child] });
    const { id } = await parent.start();
    await t.clock.advance('30m');
    bodies.length = 0;
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toEqual(['a', 'b']);
    expect(bodies.filter((entry) => entry.endsWith('ends')).sort()).toEqual(['a ends', 'b ends']);
    expect(await again.app.workflows.list()).toHaveLength(3);
  });

  it.each(['before-send', 'after-apply', 'after-reply', 'before-resolve'] as const)(
    'finds a child again whose start was not recorded yet when the app crashed %s',
    async (phase) => {
      const children: string[] = [];
      const child = workflow('child', async () => run('once', () => children.push(context().workflowId)));
      const parent = workflow('parent', async () => {
        await child();
        return 'done';
      });
      const probe = await backend.testApp({ workflows: [parent, child] });
      await parent();
      const statement = probe.statements.indexOf('workflows.insertChild') + 1;
      await probe.stop();
      children.length = 0;
      const t = await backend.testApp({ workflows: [parent, child], crashAt: { statement, phase } });
      parent
        .with({ id: 'p' })()
        .catch(() => {});
      await t.crashed;
      const again = await t.restart();
      expect(await again.app.workflows.handle('p').result()).toBe('done');
      expect(children).toEqual(['p-0']);
    },
  );

  it('does not wait for a child that was only started', async () => {
    const child = workflow('child', () => sleep('1d'));
    const parent = workflow('parent', async () => (await child.start()).id);
    const t = await backend.testApp({ workflows: [parent, child] });
    const id = await parent();
    expect(await t.app.workflows.get(id)).toMatchObject({ status: 'PENDING' });
    await t.clock.runUntil(t.app.workflows.handle(id).result());
    expect(await t.app.workflows.get(id)).toMatchObject({ status: 'SUCCESS' });
  });

  it("passes a child's error to its parent, and passes the same error in a replay", async () => {
    const seen: string[] = [];
    const child = workflow('child', async () => {
      throw Object.assign(new RangeError('too far'), { code: 'FAR' });
    });
    const parent = workflow('parent', async () => {
      const error = await failure(child());
      seen.push(`${error instanceof RangeError} ${error.name} ${error.message} ${error.code} ${error.stack}`);
      await sleep('1h');
      return error.code;
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const { id } = await parent.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe('FAR');
    expect(seen[0]).toContain('true RangeError too far FAR');
    expect(seen[1]).toBe(seen[0]);
  });

  it('returns the existing workflow when a child is started under an ID in use, and runs one body', async () => {
    let bodies = 0;
    const child = workflow('child', async (n: number) => {
      bodies++;
      return n;
    });
    const parent = workflow('parent', () =>
      Promise.all([child.with({ id: 'shared' })(1), child.with({ id: 'shared' })(2)]),
    );
    await backend.testApp({ workflows: [parent, child] });
    expect(await parent()).toEqual([1, 1]);
    expect(bodies).toBe(1);
  });

  it('refuses a workflow called inside a step with UNSUPPORTED_CALL, before anything is started', async () => {
    const child = workflow('child', async () => 1);
    const viaStep = step('via step', () => child());
    const parent = workflow('parent', async () => {
      const errors = [
        await failure(viaStep()),
        await failure(run('start', () => child.start())),
        await failure(run('sleep', () => sleep('1s'))),
      ];
      return errors.map(({ code, message }) => [code, message]);
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const errors = await parent();
    expect(errors.map(([code]) => code)).toEqual(['UNSUPPORTED_CALL', 'UNSUPPORTED_CALL', 'UNSUPPORTED_CALL']);
    expect(errors[0]?.[1]).toMatch(/"child" was called inside a step.*Call it from the workflow function/s);
    expect(await t.app.workflows.list({ name: 'child' })).toEqual([]);
  });

  it('refuses a child that the app has not registered, and records the refusal', async () => {
    const stranger = workflow('stranger', async () => 1);
    const parent = workflow('parent', async () => {
      const error = await failure((async () => stranger())());
      await sleep('1h');
      return error.code;
    });
    const t = await backend.testApp({ workflows: [parent] });
    const { id } = await parent.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    const result = again.app.workflows.handle(id).result();
    expect(await again.clock.runUntil(result)).toBe('WORKFLOW_NOT_REGISTERED');
  });

  it('gives a child the user and roles of its parent unless it has its own', async () => {
    const child = workflow('child', async () => [context().user, context().roles]);
    const parent = workflow('parent', async () => [
      await child(),
      await child.with({ user: 'bob', roles: ['guest'] })(),
    ]);
    const t = await backend.testApp({ workflows: [parent, child] });
    const start = { id: 'p', user: 'ada', roles: ['admin', 'ops'], attributes: { order: 7, tags: ['a'] } };
    expect(await parent.with(start)()).toEqual([
      ['ada', ['admin', 'ops']],
      ['bob', ['guest']],
    ]);
    expect(await t.app.workflows.get('p')).toMatchObject({
      user: 'ada',
      roles: ['admin', 'ops'],
      attributes: { order: 7, tags: ['a'] },
    });
  });

  it('continues a recursive tree of children after a crash', async () => {
    let hang = true;
    const tree = workflow('tree', async (depth: number): Promise<number> => {
      if (depth === 0) return run('leaf', () => (hang ? forever() : 1));
      const counts = await Promise.all([tree(depth - 1), tree(depth - 1)]);
      return 1 + (counts[0] as number) + (counts[1] as number);
    });
    const t = await backend.testApp({ workflows: [tree] });
    const { id } = await tree.start(3);
    await t.clock.advance(0);
    hang = false;
    const again = await t.restart();
    expect(await again.app.workflows.handle(id).result()).toBe(15);
    expect(await again.app.workflows.list({ status: 'SUCCESS' })).toHaveLength(15);
  });
});
