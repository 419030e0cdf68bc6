import { expect, it } from 'vitest';
import { context, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { claimNothing } from '../support/claims.js';
import { gate, overTime } from '../support/faults.js';
import { withoutTakeoverNews } from '../support/not-listening.js';

// P3. At most one execution of a workflow can commit. An execution that lost ownership can write nothing and its user
// code sees no error: it is parked (promise never settles, `context().signal` aborts).
// test/faults does the same with real processes that are stopped and continued.
describeBackends('P3 ownership', (backend) => {
  withoutTakeoverNews();

  /** Starts a workflow in a first app. A second app takes it over during a step and finishes it. */
  async function takeOver() {
    const seen: string[] = [];
    const inStep = gate<AbortSignal>();
    const late = gate<string>();
    const wf = workflow('wf', async () => {
      const who = context().executorId;
      try {
        const drawn = await run('draw', () => {
          if (who === 'second') return 'by the second';
          inStep.open(context().signal);
          return late.promise;
        });
        seen.push(`${who} went on`);
        return drawn;
      } catch {
        seen.push(`${who} caught`);
        return 'caught';
      } finally {
        seen.push(`${who} finally`);
      }
    });
    const database = await backend.newDatabase();
    const first = await backend.testApp({ workflows: [wf], database, executorId: 'first' });
    const handle = await wf.with({ id: 'x' }).start();
    const signal = await inStep.promise;
    const local = handle.result();
    const second = await backend.testApp({ workflows: [wf], database, clock: first.clock, executorId: 'second' });
    claimNothing(first.app);
    const [recovered] = await second.app.recovery.recover(['first']);
    expect(recovered?.id).toBe('x');
    expect(await recovered?.result()).toBe('by the second');
    return { seen, signal, local, late, first, second };
  }

  it('parks a fenced execution: neither catch nor finally runs, and its signal aborts', async () => {
    const { seen, signal, late, first } = await takeOver();
    late.open('by the first, too late');
    await first.clock.advance('1m');
    expect(signal.aborted).toBe(true);
    expect(seen).toEqual(['second went on', 'second finally']);
  });

  it('parks a fenced execution also when its step fails late', async () => {
    const { seen, signal, late, first } = await takeOver();
    late.fail(new Error('by the first, too late'));
    await first.clock.advance('1m');
    expect(signal.aborted).toBe(true);
    expect(seen).toEqual(['second went on', 'second finally']);
  });

  it('does not record the late result of a fenced execution', async () => {
    const { late, first, second } = await takeOver();
    late.open('by the first, too late');
    await first.clock.advance('1m');
    const steps = await second.app.workflows.steps('x');
    expect(steps.map(({ name, output }) => [name, output])).toEqual([['draw', 'by the second']]);
    const info = await first.app.workflows.get('x');
    expect(info).toMatchObject({ status: 'SUCCESS', output: 'by the second', executorId: 'second', attempts: 2 });
  });

  it('does not record the late result of a fenced execution while the new owner runs that step', async () => {
    const held = { first: gate<string>(), second: gate<string>() };
    const wf = workflow('wf', async () => {
      const who = context().executorId as 'first' | 'second';
      return run('draw', () => held[who].promise);
    });
    const database = await backend.newDatabase();
    const first = await backend.testApp({ workflows: [wf], database, executorId: 'first' });
    const local = (await wf.with({ id: 'x' }).start()).result();
    await first.clock.advance(0);
    const second = await backend.testApp({ workflows: [wf], database, clock: first.clock, executorId: 'second' });
    claimNothing(first.app);
    await second.app.recovery.recover(['first']);
    held.first.open('by the first, too late');
    await first.clock.advance('1m');
    expect(await second.app.workflows.steps('x')).toEqual([]);
    held.second.open('by the second');
    expect(await overTime(first.clock, local)).toBe('by the second');
    expect(await second.app.workflows.steps('x')).toMatchObject([{ name: 'draw', output: 'by the second' }]);
  });

  it('gives a handle in the fenced process the result of the new owner', async () => {
    const { late, local, first } = await takeOver();
    late.open('by the first, too late');
    expect(await overTime(first.clock, local)).toBe('by the second');
  });

  it('fences the outcome of a workflow as well as its steps', async () => {
    const returned = gate();
    const wf = workflow('wf', async () => {
      const who = context().executorId;
      if (who === 'first') await returned.promise;
      else await sleep('1h');
      return who;
    });
    const database = await backend.newDatabase();
    const first = await backend.testApp({ workflows: [wf], database, executorId: 'first' });
    const local = (await wf.with({ id: 'x' }).start()).result();
    const second = await backend.testApp({ workflows: [wf], database, clock: first.clock, executorId: 'second' });
    claimNothing(first.app);
    await second.app.recovery.recover(['first']);
    returned.open();
    await first.clock.advance('1m');
    expect(await second.app.workflows.get('x')).toMatchObject({ status: 'PENDING', output: undefined });
    await first.clock.advance('2h');
    expect(await overTime(first.clock, local)).toBe('second');
  });

  it('fences a child start and a sleep of an execution that lost its workflow', async () => {
    const goOn = gate();
    const child = workflow('child', async () => 'child');
    const wf = workflow('wf', async (what: 'child' | 'sleep') => {
      if (context().executorId === 'first') await goOn.promise;
      else await sleep('1d');
      if (what === 'child') await child.with({ id: 'a-child' })();
      else await sleep('1s');
      return 'end';
    });
    const database = await backend.newDatabase();
    const first = await backend.testApp({ workflows: [wf, child], database, executorId: 'first' });
    const handles = await Promise.all([wf.start('child'), wf.start('sleep')]);
    const second = await backend.testApp({
      workflows: [wf, child],
      database,
      clock: first.clock,
      executorId: 'second',
    });
    claimNothing(first.app);
    await second.app.recovery.recover(['first']);
    await first.clock.advance('1s');
    goOn.open();
    await first.clock.advance('1h');
    expect(await second.app.workflows.get('a-child')).toBeUndefined();
    for (const { id } of handles) {
      const steps = await second.app.workflows.steps(id);
      expect(steps.map(({ stepNumber, name }) => [stepNumber, name])).toEqual([[0, 'DBOS.sleep']]);
    }
  });

  it('does not take over its own live work when told to recover its own executor ID', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => {
      bodies++;
      await sleep('1h');
      return bodies;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('1m');
    expect(await t.app.recovery.recover([t.app.executorId])).toEqual([]);
    expect(await t.clock.runUntil(handle.result())).toBe(1);
    expect(await handle.status()).toMatchObject({ attempts: 1 });
  });

  it('lets only one of two apps take over the work of a dead executor', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => {
      bodies++;
      await sleep('1h');
    });
    const database = await backend.newDatabase();
    const dead = await backend.testApp({ workflows: [wf], database, executorId: 'dead' });
    const ids = await Promise.all(Array.from({ length: 20 }, async () => (await wf.start()).id));
    await dead.crash();
    bodies = 0;
    const shared = { workflows: [wf], database, clock: dead.clock, recovery: { enabled: false } };
    const a = await backend.testApp({ ...shared, executorId: 'a' });
    const b = await backend.testApp({ ...shared, executorId: 'b' });
    const taken = await Promise.all([a.app.recovery.recover(['dead']), b.app.recovery.recover(['dead'])]);
    await dead.clock.advance('1m');
    expect(
      taken
        .flat()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(ids.sort());
    expect(bodies).toBe(20);
  });
});
