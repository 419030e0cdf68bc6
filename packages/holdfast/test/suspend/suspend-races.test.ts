import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Runtime } from '../../src/engine/runtime.js';
import { run, sleep, topic, workflow } from '../../src/index.js';
import { VirtualClock } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, gate, tamper } from '../support/faults.js';

/** Letting go of a workflow, against everything that may happen at that moment. */
describeBackends('a workflow is let go of', (backend) => {
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
    const letGo = (): boolean => [...engine.inMemory.values()].map((each) => engine.suspend(each)).some(Boolean);
    const untilLetGo = async (): Promise<void> => {
      while (!letGo()) await new Promise((resolve) => setImmediate(resolve));
    };
    return { app, engine, clock, database, letGo, untilLetGo };
  }

  it('in the turn in which the news comes: the message is seen, without another poll', async () => {
    const wf = workflow('wf', () => order.receive({ timeout: '1d' }));
    const { engine, letGo } = await launch([wf]);
    const released = gate<boolean>();
    const handle = await wf.start();
    const isWaiting = (): boolean =>
      [...engine.inMemory.values()].some((each) => each.suspendableWaits() !== undefined);
    while (!isWaiting()) await new Promise((resolve) => setImmediate(resolve));
    engine.news.subscribe((heard) => {
      if (heard?.startsWith('message:')) released.open(letGo());
    });
    await order.send(handle.id, 'tea');
    expect(await released.promise).toBe(true);
    expect(await handle.result()).toBe('tea');
  });

  it('not while a write of it is under way: its record would come after the history that is read back', async () => {
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
    // The sleep is on record meanwhile, and is waited for.
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(letGo()).toBe(false);
    answer.open();
    expect(await recipient.result()).toBe('hello');
    await untilLetGo();
    await clock.advance('1h');
    expect(await handle.result()).toBe('sent');
  });

  it('although its code also awaits something that is not on record: that goes on, and is not done thrice', async () => {
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

  it('and its deadline passes: who waits hears of it, also if someone else was first, and nothing is left of it', async () => {
    const wf = workflow('wf', () => sleep('1h'));
    const { engine, clock, database, untilLetGo } = await launch([wf]);
    const handles = await Promise.all([1, 2].map(() => wf.with({ timeout: '10m' }).start()));
    while (engine.inMemory.size > 0) await untilLetGo();
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
    const { cancelledUnstarted } = engine as unknown as { cancelledUnstarted: Set<string> };
    // Who waits hears of it while the same call still looks for children.
    await expect.poll(() => [engine.size, cancelledUnstarted.size]).toEqual([0, 0]);
  });

  it('and is cancelled while its history is read back: it does not run again', async () => {
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
    expect([bodies, engine.size]).toEqual([1, 0]);
  });

  it('and the database is out of reach when it is due: it goes on when that is back', async () => {
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
});
