import { expect, it } from 'vitest';
import { run, sleep, workflow } from '../../src/index.js';
import { Signals } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { forever, gate, recordingLogger, tamper } from '../support/faults.js';

// P1. A workflow whose start was acknowledged reaches a terminal state, as long as some executor of its version and
// the database come back.
describeBackends('P1 completion', (backend) => {
  it('resumes a crashed workflow after its last recorded step', async () => {
    const ran: string[] = [];
    const signals = new Signals();
    const wf = workflow('wf', async () => {
      const a = await run('a', () => ran.push('a'));
      const b = await run('b', async () => {
        ran.push('b');
        signals.emit('in b');
        if (signals.count('in b') === 1) await forever();
        return 10;
      });
      return a + b;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await signals.wait('in b');
    const again = await t.restart();
    expect(await again.app.workflows.handle(handle.id).result()).toBe(11);
    expect(ran).toEqual(['a', 'b', 'b']);
    expect(await again.app.workflows.handle(handle.id).status()).toMatchObject({ status: 'SUCCESS', attempts: 2 });
  });

  it('runs a workflow that crashed before its first step', async () => {
    const wf = workflow('wf', async (name: string) => run('greet', () => `Hello ${name}`));
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start('Ada');
    const again = await t.restart();
    expect(await again.app.workflows.handle(id).result()).toBe('Hello Ada');
  });

  it('finishes all of 100 workflows that were in flight at a crash', async () => {
    const stuck = new Set<number>();
    let crashed = false;
    const wf = workflow('wf', async (n: number) => {
      const first = await run('first', () => n * 2);
      await run('second', async () => {
        if (crashed) return;
        stuck.add(n);
        await forever();
      });
      return first;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const numbers = Array.from({ length: 100 }, (_, n) => n);
    const handles = await Promise.all(numbers.map((n) => wf.start(n)));
    await t.clock.advance(0);
    expect(stuck.size).toBe(100);
    crashed = true;
    const again = await t.restart();
    const results = handles.map(({ id }) => again.app.workflows.handle<number>(id).result());
    expect(await Promise.all(results)).toEqual(numbers.map((n) => n * 2));
  });

  it('completes a workflow that crashes again and again', async () => {
    const ran: number[] = [];
    const wf = workflow('wf', async () => {
      for (let n = 0; n < 5; n++) {
        await run(`step ${n}`, () => void ran.push(n));
        await sleep('1h');
      }
      return 'done';
    });
    let t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    for (let n = 0; n < 5; n++) {
      await t.clock.advance('30m');
      t = await t.restart();
      await t.clock.advance('30m');
    }
    expect(await t.app.workflows.handle(id).result()).toBe('done');
    expect(ran).toEqual([0, 1, 2, 3, 4]);
  });

  it('finishes in the next process a workflow that was called directly', async () => {
    const held = gate();
    let held1 = true;
    const wf = workflow('wf', async () => {
      if (held1) await run('hold', () => held.promise);
      return 'by the second';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const call = wf.with({ id: 'direct' })();
    await expect(Promise.all([call, t.clock.advance(0).then(() => t.crash())])).rejects.toMatchObject({
      code: 'APP_CLOSED',
    });
    held1 = false;
    const again = await t.restart();
    expect(await again.app.workflows.handle('direct').result()).toBe('by the second');
  });

  it('runs claimed work later if the database fails before the history of the claim is read', async () => {
    const database = await backend.newDatabase();
    const logger = recordingLogger();
    const wf = workflow('wf', async () => {
      const n = await run('one', () => 1);
      await sleep('1h');
      return n;
    });
    const t = await backend.testApp({ workflows: [wf], database, logger });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    await t.crash();
    // Launched before the table is renamed, because a launch refuses a database without it.
    const again = await t.restart({ executorId: 'other', recovery: { enabled: false } });
    await tamper(database, 'alter table operation_outputs rename to hidden_outputs');
    const recovering = again.app.recovery.recover(['test']);
    await expect.poll(() => logger.matching(/operation_outputs/)).not.toEqual([]);
    await tamper(database, 'alter table hidden_outputs rename to operation_outputs');
    await recovering;
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe(1);
  });
});
