import { expect, it } from 'vitest';
import { now, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { forever, isSettled, tamper } from '../support/faults.js';

// P6. Deadlines, sleeps and schedules are instants on the database's clock; no restart moves them.
// Deadlines: timeouts.test.ts.
describeBackends('P6 time', (backend) => {
  it('sleeps thirty days instantly on a virtual clock', async () => {
    const wf = workflow('wf', async () => {
      await sleep('30 days');
      return run('after', () => 'done');
    });
    const t = await backend.testApp({ workflows: [wf] });
    const before = t.clock.now();
    const handle = await wf.start();
    expect(await t.clock.runUntil(handle.result())).toBe('done');
    expect(t.clock.now() - before).toBe(30 * 86_400_000);
  });

  it('keeps the first wake time of a sleep across restarts', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1h');
      return now().getTime();
    });
    let t = await backend.testApp({ workflows: [wf] });
    const startedAt = t.clock.now();
    const { id } = await wf.start();
    for (let restarts = 0; restarts < 3; restarts++) {
      await t.clock.advance('15m');
      t = await t.restart();
    }
    const result = t.app.workflows.handle<number>(id).result();
    await t.clock.advance('14m');
    expect(await isSettled(t.clock, result)).toBe(false);
    await t.clock.advance('1m');
    expect((await result) - startedAt).toBe(3_600_000);
  });

  it('wakes at once after a restart that comes after the wake time', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1h');
      return 'awake';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    await t.crash();
    await t.clock.advance('5h');
    const again = await t.restart();
    const before = again.clock.now();
    expect(await again.app.workflows.handle(id).result()).toBe('awake');
    expect(again.clock.now()).toBe(before);
  });

  it('does not sleep again after a restart when the sleep had ended', async () => {
    let first = true;
    const wf = workflow('wf', async () => {
      await sleep('1h');
      await run('hold', () => (first ? forever() : undefined));
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('2h');
    first = false;
    const again = await t.restart();
    expect(await again.app.workflows.handle(id).result()).toBe('done');
  });

  it('sleeps longer than 2^31 milliseconds on the real clock without waking early', async () => {
    const wf = workflow('wf', async () => {
      await sleep(2 ** 31 + 1000);
      return 'awake';
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database, clock: 'real' });
    const handle = await wf.start();
    await expect.poll(() => t.app.workflows.steps(handle.id)).toHaveLength(1);
    await expect(handle.result({ timeout: 50 })).rejects.toMatchObject({ code: 'RESULT_TIMEOUT' });
    const [row] = await t.app.workflows.steps(handle.id);
    const { createdAt } = await handle.status();
    expect(Number(row?.output) - createdAt).toBeGreaterThanOrEqual(2 ** 31 + 1000);
    await handle.cancel();
  });

  it('sleeps longer than 2^31 milliseconds across a restart', async () => {
    const wf = workflow('wf', async () => {
      await sleep('60 days');
      return 'awake';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const startedAt = t.clock.now();
    const { id } = await wf.start();
    await t.clock.advance('30 days');
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(id).result());
    expect(again.clock.now() - startedAt).toBe(60 * 86_400_000);
  });

  it('stores a sleep as the instant of its end, in the format of DBOS', async () => {
    const wf = workflow('wf', () => sleep('1h'));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    const wakeAt = t.clock.now() + 3_600_000;
    await wf.start();
    await t.clock.advance('1m');
    const [row] = await tamper(database, 'select function_name, output, completion_seq from operation_outputs');
    expect(row).toMatchObject({ function_name: 'DBOS.sleep', output: String(wakeAt), completion_seq: null });
  });

  it('sleeps for a zero duration, and ends parallel sleeps in the order of their wake times', async () => {
    const order: string[] = [];
    const wf = workflow('wf', async () => {
      await sleep(0);
      const nap = async (name: string, ms: number) => {
        await sleep(ms);
        order.push(name);
      };
      await Promise.all([nap('long', 3000), nap('short', 1000), nap('middle', 2000)]);
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.runUntil(handle.result());
    expect(order).toEqual(['short', 'middle', 'long']);
  });
});
