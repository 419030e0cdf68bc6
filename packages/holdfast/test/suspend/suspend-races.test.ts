import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Runtime } from '../../src/engine/runtime.js';
import { run, sleep, topic, workflow } from '../../src/index.js';
import { VirtualClock } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { claimNothing } from '../support/claims.js';
import { failure, gate, tamper } from '../support/faults.js';

/** A suspension, against every event that may happen at the same moment. */
describeBackends('a workflow that is being suspended', (backend) => {
  const order = topic<string>('order');

  async function launch(workflows: readonly unknown[], clock = new VirtualClock()) {
    const database = await backend.newDatabase();
    let engine!: Runtime;
    const onStart = (started: Runtime): void => {
      engine = started;
    };
    const options = { name: 'test', logger: silent, workflows, database };
    const app = await launchWith(options as never, { onStart, clock });
    onTestFinished(() => app.shutdown());
    const letGo = (): boolean =>
      [...engine.executions.inMemory.values()].map((each) => engine.executions.suspend(each)).some(Boolean);
    const untilLetGo = async (): Promise<void> => {
      while (!letGo()) await new Promise((resolve) => setImmediate(resolve));
    };
    return { app, engine, clock, database, letGo, untilLetGo };
  }

  it('sees a message whose notification arrives in the same event loop turn, without another poll', async () => {
    const wf = workflow('wf', () => order.receive({ timeout: '1d' }));
    const { engine, letGo } = await launch([wf]);
    const released = gate<boolean>();
    const handle = await wf.start();
    const isWaiting = (): boolean =>
      [...engine.executions.inMemory.values()].some((each) => each.suspendableWaits() !== undefined);
    while (!isWaiting()) await new Promise((resolve) => setImmediate(resolve));
    engine.news.subscribe((heard) => {
      if (heard?.startsWith('message:')) released.open(letGo());
    });
    await order.send(handle.id, 'tea');
    expect(await released.promise).toBe(true);
    expect(await handle.result()).toBe('tea');
  });

  it('stays in memory while a write is pending, because its history would be read without it', async () => {
    const other = workflow('other', () => order.receive({ timeout: '1d' }));
    const wf = workflow('wf', async (recipient: string) => {
      await Promise.all([order.send(recipient, 'hello'), sleep('1h')]);
      return 'sent';
    });
    const { engine, clock, letGo, untilLetGo } = await launch([wf, other]);
    const recipient = await other.start();
    await untilLetGo();
    const { steps } = engine.storage;
    const [reached, answer] = [gate(), gate()];
    const real = steps.recordEffects.bind(steps);
    steps.recordEffects = async (...args) => {
      reached.open();
      await answer.promise;
      return real(...args);
    };
    const handle = await wf.start(recipient.id);
    await reached.promise;
    // Meanwhile the sleep is recorded, and the workflow waits for it.
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(letGo()).toBe(false);
    answer.open();
    expect(await recipient.result()).toBe('hello');
    await untilLetGo();
    await clock.advance('1h');
    expect(await handle.result()).toBe('sent');
  });

  it('continues when a promise outside of Holdfast resolves, and runs the next step only once', async () => {
    const [plain, charges] = [gate(), [] as number[]];
    let bodies = 0;
    const wf = workflow('wf', async () => {
      bodies++;
      const besides = async (): Promise<string> => {
        await plain.promise;
        return run('charge', () => `charged ${charges.push(1)}`);
      };
      return Promise.race([sleep('30d'), besides()]);
    });
    const { letGo, untilLetGo } = await launch([wf]);
    const handle = await wf.start();
    await untilLetGo();
    plain.open();
    expect(await handle.result()).toBe('charged 1');
    expect([charges, bodies, letGo()]).toEqual([[1], 2, false]);
  });

  it('ends at its deadline: callers get the cancellation, even if another process cancelled it first', async () => {
    const wf = workflow('wf', () => sleep('1h'));
    const { engine, clock, database, untilLetGo } = await launch([wf]);
    const handles = await Promise.all([1, 2].map(() => wf.with({ timeout: '10m' }).start()));
    while (engine.executions.inMemory.size > 0) await untilLetGo();
    const { steps } = engine.storage;
    const real = steps.history.bind(steps);
    steps.history = async (...args) => {
      const [first] = handles;
      await tamper(
        database,
        `update workflow_status set status = 'CANCELLED', completed_at = 1 where workflow_uuid = '${first?.id}'`,
      );
      return real(...args);
    };
    const ended = Promise.all(handles.map((handle) => failure(handle.result())));
    await clock.advance('10m');
    expect(await clock.runUntil(ended)).toMatchObject([1, 2].map(() => ({ code: 'WORKFLOW_CANCELLED' })));
    const { unstarted } = engine.cancellations as unknown as { unstarted: Set<string> };
    // The callers get the error while the same call still looks for children.
    await expect.poll(() => [engine.executions.size, unstarted.size]).toEqual([0, 0]);
  });

  it.each(['a reload', 'a refused write'])(
    'leaves nothing in memory if %s sees its cancellation before the caller',
    async (seen) => {
      const released = gate();
      const wf = workflow('wf', async () => {
        if (seen === 'a reload') return sleep('1h');
        return run('write', () => released.promise);
      });
      const { engine, clock, untilLetGo } = await launch([wf]);
      const { workflows } = engine.storage;
      const [committed, answer] = [gate(), gate()];
      const real = workflows.cancel.bind(workflows);
      workflows.cancelledSince = async () => [];
      workflows.cancel = async (params, onChange) => {
        const cancelled = await real(params);
        committed.open();
        await answer.promise;
        onChange?.(cancelled);
        return cancelled;
      };
      const handle = await wf.start();
      if (seen === 'a reload') await untilLetGo();
      const cancelled = handle.cancel();
      await committed.promise;
      released.open();
      if (seen === 'a reload') await clock.advance('1h');
      while (engine.executions.size > 0) await new Promise((resolve) => setImmediate(resolve));
      answer.open();
      await cancelled;
      const { unstarted } = engine.cancellations as unknown as { unstarted: Set<string> };
      expect(unstarted.size).toBe(0);
      expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    },
  );

  it('does not run again if it is cancelled while its history is read', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => {
      bodies++;
      await sleep('1h');
      await run('after', () => void bodies++);
    });
    const { engine, clock, untilLetGo } = await launch([wf]);
    const handle = await wf.start();
    await untilLetGo();
    const { steps } = engine.storage;
    const [reached, answer] = [gate(), gate()];
    const real = steps.history.bind(steps);
    steps.history = async (...args) => {
      reached.open();
      await answer.promise;
      return real(...args);
    };
    await clock.advance('1h');
    await reached.promise;
    await handle.cancel();
    answer.open();
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
    expect([bodies, engine.executions.size]).toEqual([1, 0]);
  });

  it('continues after an outage if the database was unreachable when its wait ended', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1h');
      return 'done';
    });
    const { engine, clock, untilLetGo } = await launch([wf]);
    const handle = await wf.start();
    await untilLetGo();
    const { workflows } = engine.storage;
    const real = workflows.owned.bind(workflows);
    let failures = 0;
    const broken = Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' });
    workflows.owned = async (...args) => {
      if (failures++ < 3) throw broken;
      return real(...args);
    };
    if (engine.storage.classify(broken) === 'refused') return;
    await clock.advance('1h');
    expect(await handle.result()).toBe('done');
    expect(failures).toBeGreaterThanOrEqual(4);
  });

  it('is not reloaded after another process took it over, and callers get its result', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => {
      bodies++;
      await sleep('1h');
      return bodies;
    });
    const { app, clock, database, untilLetGo } = await launch([wf]);
    const result = (await wf.with({ app }).start()).result();
    await untilLetGo();
    claimNothing(app);
    const second = await backend.testApp({ workflows: [wf], database, executorId: 'second', clock, name: 'test' });
    await second.app.recovery.recover([app.executorId]);
    expect(await second.clock.runUntil(result)).toBe(2);
    expect(bodies).toBe(2);
  });
});
