import { expect, it } from 'vitest';
import { engineOf } from '../../src/engine/running-apps.js';
import type { Runtime } from '../../src/engine/runtime.js';
import { type Queue, queue, run, sleep, workflow } from '../../src/index.js';
import { HoldfastError } from '../../src/model/errors.js';
import { internalQueue } from '../../src/model/queues.js';
import type { TestAppOptions } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, gate, overTime, tamper, watchUnhandled } from '../support/faults.js';

/** A workflow that leaves a process, against every event that may happen at the same moment. */
describeBackends('a workflow that leaves its process', (backend) => {
  async function launch(workflows: NonNullable<TestAppOptions['workflows']>, queues: readonly Queue[] = []) {
    const database = await backend.newDatabase();
    const { app, clock } = await backend.testApp({ workflows, queues, database });
    return { app, engine: engineOf(app) as Runtime, clock, database };
  }

  const unstartedOf = (engine: Runtime): Set<string> =>
    (engine.cancellations as unknown as { unstarted: Set<string> }).unstarted;

  const turns = async (count = 50): Promise<void> => {
    for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
  };

  it('runs no step if it is cancelled while the same process claims it again', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => {
      await run('prepare', () => {});
      await run('charge', () => {
        bodies++;
        return bodies === 1 ? forever() : undefined;
      });
    });
    const { engine, clock } = await launch([wf]);
    const handle = await wf.start();
    while (bodies === 0) await turns(1);
    const [held] = [...engine.executions.inMemory.values()];
    const owner = held?.claim.owner ?? '';
    const { steps, workflows } = engine.storage;
    const [reading, read] = [gate(), gate()];
    const real = steps.history.bind(steps);
    steps.history = async (...args) => {
      reading.open();
      await read.promise;
      return real(...args);
    };
    // As another process does that presumes this one dead.
    await workflows.release({ owned: [{ workflowId: handle.id, owner }], queueName: internalQueue, now: 1 });
    engine.news.announce('queues');
    await reading.promise;
    const result = failure(handle.result());
    await handle.cancel();
    read.open();
    while (engine.executions.size > 0 && bodies === 1) await turns(1);
    await turns();
    expect([bodies, engine.executions.size]).toEqual([1, 0]);
    expect(held?.signal.aborted).toBe(true);
    expect(await overTime(clock, result, 10)).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(unstartedOf(engine).size).toBe(0);
  });

  it('is cancelled by another process while it waits to run again: callers get the cancellation', async () => {
    const wf = workflow('wf', async () => 'done');
    const { engine, clock, database } = await launch([wf]);
    const failed = gate();
    const { finish } = engine.checkpoints;
    engine.checkpoints.finish = async () => {
      failed.open();
      throw new Error('unexpected');
    };
    const handle = await wf.start();
    const result = failure(handle.result());
    await failed.promise;
    while (engine.executions.size > 0) await turns(1);
    engine.checkpoints.finish = finish;
    await tamper(database, `update workflow_status set status = 'CANCELLED', completed_at = 1`);
    expect(await overTime(clock, result, 20)).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
  });

  it('is awaited by a caller although an earlier query did not find it', async () => {
    const orders = queue('orders');
    const wf = workflow('wf', async () => 'done');
    const { app, engine, clock } = await launch([wf], [orders]);
    const { workflows } = engine.storage;
    const [queried, answer] = [gate(), gate()];
    const real = workflows.endings.bind(workflows);
    workflows.endings = async (...args) => {
      const found = await real(...args);
      queried.open();
      await answer.promise;
      return found;
    };
    const early = failure(app.workflows.handle('x').result());
    await clock.advance(0);
    await queried.promise;
    const handle = await wf.with({ id: 'x', queue: orders, delay: '1m' }).start();
    const result = handle.result();
    answer.open();
    expect(await early).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await overTime(clock, result, 120)).toBe('done');
  });

  it('ends if its code returns after it was suspended, because of a promise outside of Holdfast', async () => {
    const plain = gate<string>();
    const wf = workflow('wf', () => Promise.race([sleep('30d'), plain.promise]));
    const { engine, clock } = await launch([wf]);
    const handle = await wf.start();
    const letGo = (): boolean =>
      [...engine.executions.inMemory.values()].map((each) => engine.executions.suspend(each)).some(Boolean);
    while (!letGo()) await turns(1);
    plain.open('now');
    expect(await overTime(clock, handle.result(), 10)).toBe('now');
  });

  it('does not delay a shutdown while the database is unreachable after its claim', async () => {
    const wf = workflow('wf', async () => {
      await run('a', () => 1);
      await sleep('1h');
    });
    const { app, engine, clock } = await launch([wf]);
    const handle = await wf.start();
    await clock.advance('1s');
    await handle.cancel();
    const reading = gate();
    engine.storage.steps.history = async () => {
      reading.open();
      throw Object.assign(new Error('connection lost'), { code: 'ECONNRESET' });
    };
    await app.workflows.resume(handle.id);
    await reading.promise;
    let closed = false;
    const closing = app.shutdown().then(() => {
      closed = true;
    });
    await expect.poll(() => closed, { timeout: 15_000 }).toBe(true);
    await closing;
  });

  it('leaves no executor behind if a heartbeat is late at the shutdown', async () => {
    const { app, engine, clock, database } = await launch([]);
    const { executors } = engine.storage;
    const [sent, answer, answered] = [gate(), gate(), gate()];
    let joins = 0;
    const { beat, leave, join } = {
      beat: executors.beat.bind(executors),
      leave: executors.leave.bind(executors),
      join: executors.join.bind(executors),
    };
    executors.join = (...args) => {
      joins++;
      return join(...args);
    };
    executors.beat = async (...args) => {
      sent.open();
      await answer.promise;
      const found = await beat(...args);
      answered.open();
      return found;
    };
    executors.leave = async (...args) => {
      await leave(...args);
      answer.open();
      await answered.promise;
      await turns();
    };
    const moved = clock.advance('6s');
    await sent.promise;
    await moved;
    await app.shutdown();
    expect(joins).toBe(0);
    expect(await tamper(database, 'select * from executors')).toEqual([]);
  });

  it('is reclaimed later if its hand-over is refused after the database lost results', async () => {
    const unhandled = watchUnhandled();
    const [reached, end] = [gate(), gate()];
    const wf = workflow('wf', () =>
      run('step', async () => {
        reached.open();
        await end.promise;
        return 'done';
      }),
    );
    const { engine, clock } = await launch([wf]);
    const handle = await wf.start();
    await reached.promise;
    const [execution] = [...engine.executions.inMemory.values()];
    const owner = execution?.claim.owner ?? '';
    const { workflows } = engine.storage;
    const release = workflows.release.bind(workflows);
    let refusals = 0;
    workflows.release = async (...args) => {
      if (refusals++ === 0) throw new TypeError('refused');
      return release(...args);
    };
    engine.executions.supersede(handle.id, owner, { owner, status: 'PENDING' });
    end.open();
    expect(await overTime(clock, handle.result(), 60)).toBe('done');
    expect([unhandled, refusals]).toEqual([[], 2]);
  });

  it.each(['a refused write', 'a stall'])(
    'is forgotten if %s comes before the answer to its cancellation',
    async (seen) => {
      const wf = workflow('wf', () => sleep('1h'));
      const { engine } = await launch([wf]);
      const { workflows } = engine.storage;
      const [committed, answer] = [gate(), gate()];
      const cancel = workflows.cancel.bind(workflows);
      workflows.cancelledSince = async () => [];
      workflows.cancel = async (params, onChange) => {
        const cancelled = await cancel(params);
        committed.open();
        await answer.promise;
        onChange?.(cancelled);
        return cancelled;
      };
      const handle = await wf.start();
      const [execution] = [...engine.executions.inMemory.values()];
      const owner = execution?.claim.owner ?? '';
      const details = { workflowId: handle.id, name: 'wf' };
      const stalled = new HoldfastError('NON_DETERMINISM', 'another step', { details });
      const cancelled = handle.cancel();
      await committed.promise;
      if (seen === 'a stall') await engine.executions.stall(handle.id, owner, stalled);
      else engine.executions.supersede(handle.id, owner, { owner, status: 'CANCELLED' });
      answer.open();
      await cancelled;
      expect(unstartedOf(engine).size).toBe(0);
      expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    },
  );
});
