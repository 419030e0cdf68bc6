import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Runtime } from '../../src/engine/runtime.js';
import type { SuspendedWorkflows } from '../../src/engine/suspend/suspended.js';
import { queue, run, workflow } from '../../src/index.js';
import type { Workflows } from '../../src/storage/contract/storage.js';
import { VirtualClock } from '../../src/testing/index.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { failure, gate } from '../support/faults.js';
import { go } from '../support/slots.js';

/** Giving a slot back, against everything that may happen while the statement is under way. */
describeBackends('while a slot is being given back', (backend) => {
  for (const when of ['before', 'after'] as const) {
    it(`a message comes ${when} the mark is written: it is heard, and the workflow goes on once`, async () => {
      const rig = await launchRig(backend);
      const { engine, bodies, start } = rig;
      const { reached, answer } = hold(engine, 'setAtRest', when);
      const handle = await start();
      await rig.untilLetGo();
      await reached.promise;
      await go.send(handle.id, 'tea');
      await rig.untilWoken(handle.id);
      answer.open();
      expect(await handle.result()).toBe('tea');
      expect(bodies()).toBe(2);
      expect(await handle.status()).toMatchObject({ attempts: 1 });
      expect(engine.size).toBe(0);
    });

    it(`the workflow is cancelled ${when} the mark is written: it ends, and its slot is free once`, async () => {
      const { engine, start, untilLetGo } = await launchRig(backend);
      const { reached, answer } = hold(engine, 'setAtRest', when);
      const handle = await start();
      await untilLetGo();
      await reached.promise;
      const ending = failure(handle.result());
      await handle.cancel();
      answer.open();
      expect(await ending).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
      await expect.poll(() => engine.checkpoints.isIdle).toBe(true);
      expect([engine.size, engine.queueLoad.of('q')]).toEqual([0, 0]);
      const next = await start();
      await go.send(next.id, 'milk');
      expect(await next.result()).toBe('milk');
    });

    it(`the app shuts down ${when} the mark is written: the workflow is handed over`, async () => {
      const { app, engine, start, untilLetGo, database, options } = await launchRig(backend);
      const { reached, answer } = hold(engine, 'setAtRest', when);
      const { id } = await start();
      await untilLetGo();
      await reached.promise;
      const closed = app.shutdown();
      answer.open();
      await closed;
      const next = await backend.testApp({ ...options, database, executorId: 'next' });
      await go.send(id, 'tea', { app: next.app });
      expect(await next.clock.runUntil(next.app.workflows.handle(id).result())).toBe('tea');
      expect(await next.app.workflows.get(id)).toMatchObject({ attempts: 1 });
    });

    it(`a second message comes ${when} it has gone back to its queue: it is taken once, and hears both`, async () => {
      const rig = await launchRig(backend);
      const { engine, start } = rig;
      const handle = await start(2);
      await rig.untilLetGo();
      await expect.poll(() => engine.queueLoad.of('q')).toBe(0);
      const { reached, answer } = hold(engine, 'release', when);
      await go.send(handle.id, 'tea');
      await reached.promise;
      await go.send(handle.id, 'milk');
      answer.open();
      expect(await handle.result()).toBe('tea milk');
      expect(await handle.status()).toMatchObject({ attempts: 1 });
    });
  }
});

/** Holds the next such statement up, before it is sent or after it is done, until the test lets it go. */
function hold(engine: Runtime, name: 'setAtRest' | 'release', when: 'before' | 'after') {
  const [reached, answer] = [gate(), gate()];
  const { workflows } = engine.storage as { workflows: { -readonly [K in keyof Workflows]: Workflows[K] } };
  const real = workflows[name].bind(workflows) as (given: never) => Promise<Set<string>>;
  workflows[name] = async (given: unknown) => {
    workflows[name] = real as never;
    const written = when === 'after' ? await real(given as never) : undefined;
    reached.open();
    await answer.promise;
    return written ?? real(given as never);
  };
  return { reached, answer };
}

async function launchRig(backend: Backend) {
  let bodies = 0;
  const wf = workflow('wf', async (count: number) => {
    bodies++;
    const words: string[] = [];
    for (let i = 0; i < count; i++) words.push((await go.receive({ timeout: '1h' })) ?? 'none');
    return run('end', () => words.join(' '));
  });
  let engine!: Runtime;
  const onStart = (started: Runtime): void => {
    engine = started;
  };
  const database = await backend.newDatabase();
  const options = {
    ...{ name: 'test', version: 'v1', logger: silent, workflows: [wf] },
    queues: [queue('q', { concurrency: 1, whileWaiting: 'release' })],
  };
  const app = await launchWith({ ...options, database }, { onStart, clock: new VirtualClock() });
  onTestFinished(() => app.shutdown());
  const untilLetGo = async (): Promise<void> => {
    while (![...engine.inMemory.values()].some((each) => engine.suspend(each))) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  /** Its wake-up has come, and waits for what becomes of the slot. */
  const untilWoken = async (id: string): Promise<void> => {
    const { suspended } = engine as unknown as { suspended: SuspendedWorkflows };
    await expect.poll(() => suspended.of(id)?.isDue, { interval: 2 }).toBe(true);
  };
  const start = (count = 1) => wf.with({ queue: 'q', app }).start(count);
  return { app, engine, database, options, start, untilLetGo, untilWoken, bodies: () => bodies };
}
