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

/** Tests races between the statement that gives a slot back and everything that can happen while it runs. */
describeBackends('while a slot is being given back', (backend) => {
  for (const when of ['before', 'after'] as const) {
    it(`a message that comes ${when} the mark is written continues the workflow exactly once`, async () => {
      const rig = await launchRig(backend);
      const { engine, bodies, start } = rig;
      const { reached, answer } = hold(engine, 'markSuspended', when);
      const handle = await start();
      await rig.untilLetGo();
      await reached.promise;
      await go.send(handle.id, 'tea');
      await rig.untilWoken(handle.id);
      answer.open();
      expect(await handle.result()).toBe('tea');
      expect(bodies()).toBe(2);
      expect(await handle.status()).toMatchObject({ attempts: 1 });
      expect(engine.executions.size).toBe(0);
    });

    it(`a workflow that is cancelled ${when} the mark is written ends, and frees its slot exactly once`, async () => {
      const { engine, start, untilLetGo } = await launchRig(backend);
      const { reached, answer } = hold(engine, 'markSuspended', when);
      const handle = await start();
      await untilLetGo();
      await reached.promise;
      const ending = failure(handle.result());
      await handle.cancel();
      answer.open();
      expect(await ending).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
      await expect.poll(() => engine.checkpoints.isIdle).toBe(true);
      expect([engine.executions.size, engine.slotsInUse.of('q')]).toEqual([0, 0]);
      const next = await start();
      await go.send(next.id, 'milk');
      expect(await next.result()).toBe('milk');
    });

    it(`a shutdown ${when} the mark is written hands the workflow over`, async () => {
      const { app, engine, start, untilLetGo, database, options } = await launchRig(backend);
      const { reached, answer } = hold(engine, 'markSuspended', when);
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

    it(`a second message ${when} the return to the queue reaches the same resumed run`, async () => {
      const rig = await launchRig(backend);
      const { engine, start } = rig;
      const handle = await start(2);
      await rig.untilLetGo();
      await expect.poll(() => engine.slotsInUse.of('q')).toBe(0);
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

/** Blocks the next statement of this name, before it is sent or after it is done, until the test opens `answer`. */
function hold(engine: Runtime, name: 'markSuspended' | 'release', when: 'before' | 'after') {
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
    while (![...engine.executions.inMemory.values()].some((each) => engine.executions.suspend(each))) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  /** Resolves when the workflow is due to continue, and waits for the outcome of the statement about its slot. */
  const untilWoken = async (id: string): Promise<void> => {
    const { suspended } = engine.executions as unknown as { suspended: SuspendedWorkflows };
    await expect.poll(() => suspended.of(id)?.isDue, { interval: 2 }).toBe(true);
  };
  const start = (count = 1) => wf.with({ queue: 'q', app }).start(count);
  return { app, engine, database, options, start, untilLetGo, untilWoken, bodies: () => bodies };
}
