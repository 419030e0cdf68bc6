import { expect, it } from 'vitest';
import { context, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, gate, isSettled, overTime } from '../support/faults.js';

describeBackends('shutdown', (backend) => {
  it('lets running work finish while it drains', async () => {
    const hold = gate<string>();
    const wf = workflow('wf', async () => `${await run('hold', () => hold.promise)} and ${await run('more', () => 1)}`);
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    const result = handle.result();
    await t.clock.advance(0);
    const closing = t.app.shutdown({ drain: '30s' });
    expect(await isSettled(t.clock, closing)).toBe(false);
    hold.open('finished');
    await overTime(t.clock, closing, 5);
    expect(await result).toBe('finished and 1');
  });

  it('runs the children of draining workflows too', async () => {
    const hold = gate();
    const child = workflow('child', () => run('work', () => 'by the child'));
    const parent = workflow('parent', async () => {
      await run('hold', () => hold.promise);
      return child();
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const result = (await parent.start()).result();
    await t.clock.advance(0);
    const closing = t.app.shutdown({ drain: '30s' });
    hold.open();
    await overTime(t.clock, closing, 5);
    expect(await result).toBe('by the child');
  });

  it('hands over unfinished workflows when the drain ends: another app continues them, none is cancelled', async () => {
    const ran: string[] = [];
    const seen: string[] = [];
    const wf = workflow('wf', async () => {
      const who = context().executorId;
      await run('a', () => void ran.push(`a by ${who}`));
      try {
        await run('b', () => {
          ran.push(`b by ${who}`);
          return who === 'first' ? forever() : undefined;
        });
      } catch {
        seen.push('caught');
      } finally {
        seen.push(`finally by ${who}`);
      }
      return 'done';
    });
    const database = await backend.newDatabase();
    const first = await backend.testApp({ workflows: [wf], database, executorId: 'first' });
    const second = await backend.testApp({ workflows: [wf], database, executorId: 'second', clock: first.clock });
    const handle = await wf.with({ app: first.app }).start();
    const local = failure(handle.result());
    await first.clock.advance(0);
    await overTime(first.clock, first.app.shutdown({ drain: '5s' }), 10);
    expect(await local).toMatchObject({ code: 'APP_CLOSED' });
    const taken = second.app.workflows.handle(handle.id);
    expect(await overTime(second.clock, taken.result(), 5)).toBe('done');
    expect(ran).toEqual(['a by first', 'b by first', 'b by second']);
    expect(seen).toEqual(['finally by second']);
    // The attempt that the shutdown interrupted does not count.
    expect(await taken.status()).toMatchObject({ status: 'SUCCESS', attempts: 1, executorId: 'second' });
  });

  it('does not wait for sleeping workflows, nor for parents that wait for them', async () => {
    const sleeper = workflow('sleeper', async () => {
      await sleep('30 days');
      return 'awake';
    });
    const parent = workflow('parent', () => sleeper());
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [sleeper, parent], database });
    const { id } = await parent.start();
    await t.clock.advance('1m');
    const before = t.clock.now();
    await overTime(t.clock, t.app.shutdown({ drain: '1h' }), 5);
    expect(t.clock.now() - before).toBeLessThan(5000);
    const next = await backend.testApp({ workflows: [sleeper, parent], database, clock: t.clock, executorId: 'next' });
    await next.clock.advance('2s');
    expect((await next.app.workflows.list()).map(({ status }) => status)).toEqual(['PENDING', 'PENDING']);
    expect(await next.clock.runUntil(next.app.workflows.handle(id).result())).toBe('awake');
    expect(next.clock.now() - before).toBeLessThanOrEqual(30 * 86_400_000);
  });

  it('waits for a sleep that ends within the drain', async () => {
    const wf = workflow('wf', async () => {
      await sleep('10s');
      return 'awake';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const result = (await wf.start()).result();
    await t.clock.advance('1s');
    await overTime(t.clock, t.app.shutdown({ drain: '30s' }), 15);
    expect(await result).toBe('awake');
  });

  it('refuses new work while it drains', async () => {
    const hold = gate();
    const wf = workflow('wf', () => run('hold', () => hold.promise));
    const t = await backend.testApp({ workflows: [wf] });
    await wf.start();
    await t.clock.advance(0);
    const closing = t.app.shutdown({ drain: '30s' });
    expect(await failure(wf.start())).toMatchObject({ code: 'APP_CLOSED' });
    hold.open();
    await overTime(t.clock, closing, 5);
    expect(await failure(wf.start())).toMatchObject({ code: 'NOT_LAUNCHED' });
  });

  it('hands over a workflow whose start was acknowledged while it closed', async () => {
    const wf = workflow('wf', async (n: number) => n);
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    const starting = [1, 2, 3].map((n) => wf.with({ id: `w${n}` }).start(n));
    const closing = t.app.shutdown();
    const acknowledged = (await Promise.allSettled(starting)).flatMap((start) =>
      start.status === 'fulfilled' ? [start.value.id] : [],
    );
    await overTime(t.clock, closing, 5);
    const next = await backend.testApp({ workflows: [wf], database, clock: t.clock, executorId: 'next' });
    for (const id of acknowledged) {
      expect(await overTime(next.clock, next.app.workflows.handle(id).result(), 5)).toBe(Number(id.slice(1)));
    }
  });

  it('may hand a workflow over any number of times without using up its attempts', async () => {
    const wf = workflow(
      'wf',
      async () => {
        for (let n = 0; n < 4; n++) await sleep('1h');
        return 'done';
      },
      { maxRecoveryAttempts: 0 },
    );
    const database = await backend.newDatabase();
    let t = await backend.testApp({ workflows: [wf], database });
    const { clock } = t;
    const { id } = await wf.start();
    for (let n = 0; n < 3; n++) {
      await clock.advance('1h');
      await t.app.shutdown();
      t = await backend.testApp({ workflows: [wf], database, clock });
      await clock.advance('2s');
    }
    expect(await clock.runUntil(t.app.workflows.handle(id).result())).toBe('done');
    expect(await t.app.workflows.get(id)).toMatchObject({ attempts: 1 });
  });

  it('does the same when it is called twice', async () => {
    const t = await backend.testApp();
    await Promise.all([t.app.shutdown(), t.app.shutdown()]);
    await t.app.shutdown();
    expect(() => t.app.register()).toThrow(expect.objectContaining({ code: 'APP_CLOSED' }));
  });
});
