import { expect, it } from 'vitest';
import { context, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, isSettled, overTime } from '../support/faults.js';

describeBackends('a workflow timeout', (backend) => {
  it('cancels a workflow at its deadline and says why', async () => {
    const wf = workflow('wf', () => sleep('1d'), { timeout: '1h' });
    const t = await backend.testApp({ workflows: [wf] });
    const before = t.clock.now();
    const handle = await wf.start();
    const result = handle.result();
    await t.clock.advance('59m');
    expect(await isSettled(t.clock, result)).toBe(false);
    expect(await failure(t.clock.runUntil(result))).toMatchObject({
      code: 'WORKFLOW_CANCELLED',
      message: expect.stringContaining('timeout'),
    });
    expect(t.clock.now() - before).toBe(3_600_000);
    const { status, reason, deadlineAt, timeoutMs } = await handle.status();
    expect({ status, reason, deadlineAt, timeoutMs }).toEqual({
      status: 'CANCELLED',
      reason: 'its timeout passed',
      deadlineAt: before + 3_600_000,
      timeoutMs: 3_600_000,
    });
  });

  it('of a start replaces the timeout of the workflow, and null means none', async () => {
    const deadlines: unknown[] = [];
    const wf = workflow('wf', async () => deadlines.push((context().deadlineAt ?? Infinity) - t.clock.now()), {
      timeout: '1h',
    });
    const t = await backend.testApp({ workflows: [wf] });
    await wf();
    await wf.with({ timeout: '5m' })();
    await wf.with({ timeout: null })();
    expect(deadlines).toEqual([3_600_000, 300_000, Infinity]);
  });

  it('does not begin again after a recovery', async () => {
    const wf = workflow('wf', () => sleep('1d'), { timeout: '1h' });
    let t = await backend.testApp({ workflows: [wf] });
    const before = t.clock.now();
    const { id } = await wf.start();
    for (let n = 0; n < 3; n++) {
      await t.clock.advance('15m');
      t = await t.restart();
    }
    const result = t.app.workflows.handle(id).result();
    expect(await failure(t.clock.runUntil(result))).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(t.clock.now() - before).toBe(3_600_000);
  });

  it('cancels at once, without running anything, when the process comes back after the deadline', async () => {
    let ran = 0;
    const hang = () => {
      ran++;
      return forever();
    };
    const wf = workflow('wf', () => run('hang', hang), { timeout: '1h' });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    await t.crash();
    await t.clock.advance('2h');
    const again = await t.restart();
    const error = await failure(again.clock.runUntil(again.app.workflows.handle(id).result()));
    expect(error).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(ran).toBe(1);
  });

  it('reaches children, which inherit the deadline', async () => {
    const deadlines: (number | undefined)[] = [];
    const child = workflow('child', async () => {
      deadlines.push(context().deadlineAt);
      await sleep('1d');
    });
    const parent = workflow('parent', async () => {
      await sleep('10m');
      await child.with({ id: 'child' })();
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const before = t.clock.now();
    const handle = await parent.with({ timeout: '1h' }).start();
    expect(await failure(t.clock.runUntil(handle.result()))).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(deadlines).toEqual([before + 3_600_000]);
    expect(await t.app.workflows.get('child')).toMatchObject({ status: 'CANCELLED', deadlineAt: before + 3_600_000 });
  });

  it('lets a child have an earlier deadline than its parent, never a later one', async () => {
    const deadlines: unknown[] = [];
    const child = workflow('child', async () => deadlines.push((context().deadlineAt ?? 0) - t.clock.now()));
    const parent = workflow('parent', async () => {
      await child.with({ timeout: '10m' })();
      await child.with({ timeout: '10h' })();
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    await parent.with({ timeout: '1h' })();
    expect(deadlines).toEqual([600_000, 3_600_000]);
  });

  it('does not reach a child that was detached with timeout: null', async () => {
    const child = workflow('child', async () => {
      await sleep('1d');
      return context().deadlineAt;
    });
    const parent = workflow('parent', async () => {
      await child.with({ id: 'detached', timeout: null }).start();
      await sleep('2d');
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const handle = await parent.with({ timeout: '1h' }).start();
    await failure(t.clock.runUntil(handle.result()));
    const detached = t.app.workflows.handle('detached');
    expect(await detached.status()).toMatchObject({ status: 'PENDING' });
    expect(await t.clock.runUntil(detached.result())).toBeUndefined();
  });

  it.each([
    ['started', {}],
    ['enqueued', { delay: 0 }],
  ])('does not reach a detached child that was %s, whose own timeout applies', async (_, options) => {
    const child = workflow('child', () => sleep('30d'), { timeout: '10d' });
    const detached = { ...options, detached: true } as const;
    const parent = workflow('parent', async () => {
      await child.with({ ...detached, id: 'own', timeout: '5h' }).start();
      await child.with({ ...detached, id: 'default' }).start();
      await sleep('2d');
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const before = t.clock.now();
    const handle = await parent.with({ timeout: '1h' }).start();
    await failure(t.clock.runUntil(handle.result()));
    const [own, byDefault] = ['own', 'default'].map((id) => t.app.workflows.handle(id));
    expect(await own?.status()).toMatchObject({ status: 'PENDING', deadlineAt: before + 5 * 3_600_000 });
    expect(await byDefault?.status()).toMatchObject({ status: 'PENDING', deadlineAt: before + 240 * 3_600_000 });
    await t.app.workflows.cancel(handle.id);
    expect(await failure(t.clock.runUntil(own?.result() as Promise<unknown>))).toMatchObject({
      code: 'WORKFLOW_CANCELLED',
      message: expect.stringContaining('timeout'),
    });
    expect(t.clock.now() - before).toBe(5 * 3_600_000);
  });

  it('refuses a value of detached that is not a boolean, and false together with timeout: null', async () => {
    const wf = workflow('wf', async () => 1);
    expect(() => wf.with({ detached: 1 as never })).toThrow(/"detached" must be true or false/);
    expect(() => wf.with({ detached: false, timeout: null })).toThrow(/"timeout: null", which detaches/);
  });

  it('is enforced by the sweep of any app if no process runs the workflow', async () => {
    const wf = workflow('wf', () => sleep('1d'), { timeout: '1h' });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    await t.crash();
    const other = await backend.testApp({ database, clock: t.clock, executorId: 'other', version: 'another' });
    await t.clock.advance('50m');
    expect(await other.app.workflows.get(id)).toMatchObject({ status: 'PENDING' });
    await t.clock.advance('10m');
    expect(await other.app.workflows.get(id)).toMatchObject({ status: 'CANCELLED', reason: 'its timeout passed' });
  });

  it('is enforced by the sweep for work that was handed over and not taken yet', async () => {
    const wf = workflow('wf', () => sleep('1d'), { timeout: '1h' });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    await t.app.shutdown();
    const other = await backend.testApp({ database, clock: t.clock, executorId: 'other', version: 'another' });
    expect(await other.app.workflows.get(id)).toMatchObject({ status: 'ENQUEUED' });
    await t.clock.advance('61m');
    expect(await other.app.workflows.get(id)).toMatchObject({ status: 'CANCELLED' });
  });

  it('does not move when the work is handed over to another app', async () => {
    const wf = workflow('wf', () => sleep('1d'), { timeout: '1h' });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    const before = t.clock.now();
    const { id } = await wf.start();
    await t.clock.advance('30m');
    await t.app.shutdown();
    const next = await backend.testApp({ workflows: [wf], database, clock: t.clock, executorId: 'next' });
    await next.clock.advance('29m');
    const error = await failure(overTime(t.clock, next.app.workflows.handle(id).result()));
    expect(error).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(t.clock.now() - before).toBeLessThan(3_602_000);
  });

  it('does not affect a workflow that finished in time', async () => {
    const wf = workflow('wf', async () => 'in time', { timeout: '1h' });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await handle.result();
    await t.clock.advance('2h');
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS', output: 'in time' });
  });
});
