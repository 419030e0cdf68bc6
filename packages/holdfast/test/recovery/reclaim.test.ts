import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Runtime } from '../../src/engine/runtime.js';
import { run, workflow } from '../../src/index.js';
import { internalQueue } from '../../src/model/queues.js';
import type { Dequeued } from '../../src/storage/contract/storage.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { gate } from '../support/faults.js';

describeBackends('after a lost connection, work that is just being loaded is not considered lost', (backend) => {
  it('while the history of a claim is read', async () => {
    const rig = await launchRig(backend);
    const reading = rig.hold('steps', 'history', 'before');
    const handle = await rig.start();
    await rig.firstDone.promise;
    await rig.putBack(handle.id);
    await reading.reached.promise;
    await rig.looks();
    reading.answer.open();
    rig.goOn.open();
    expect(await handle.result()).toBe('done');
    expect([rig.begun, rig.warnings]).toEqual([['first', 'second'], []]);
  });

  it('while the answer to a claim is pending', async () => {
    const rig = await launchRig(backend);
    const handle = await rig.start();
    await rig.firstDone.promise;
    const claiming = rig.hold('queues', 'dequeue', 'after');
    await rig.putBack(handle.id);
    await claiming.reached.promise;
    await rig.looks();
    claiming.answer.open();
    rig.goOn.open();
    expect(await handle.result()).toBe('done');
    expect([rig.begun, rig.warnings]).toEqual([['first', 'second'], []]);
  });

  it('while the answer to a start is pending', async () => {
    const rig = await launchRig(backend);
    rig.goOn.open();
    const starting = rig.hold('workflows', 'insertMany', 'after');
    const started = rig.start();
    await starting.reached.promise;
    await rig.looks();
    starting.answer.open();
    expect(await (await started).result()).toBe('done');
    expect([rig.begun, rig.warnings]).toEqual([['first', 'second'], []]);
  });
});

describeBackends('after a lost connection, work that this process has dropped is given back', (backend) => {
  it('even if the search for such work had already begun when the process dropped it', async () => {
    const rig = await launchRig(backend);
    const handle = await rig.start();
    await rig.firstDone.promise;
    await rig.looks(3, () => rig.letGo(handle.id));
    rig.goOn.open();
    expect(await handle.result({ timeout: '10s' })).toBe('done');
    expect([rig.begun, rig.warnings]).toEqual([['first', 'second'], [expect.stringMatching(/does not run here/)]]);
  });
});

async function launchRig(backend: Backend) {
  const begun: string[] = [];
  const warnings: string[] = [];
  const [firstDone, goOn] = [gate(), gate()];
  const wf = workflow('wf', async () => {
    await run('first', () => void begun.push('first'));
    firstDone.open();
    await goOn.promise;
    await run('second', () => void begun.push('second'));
    return 'done';
  });
  let engine!: Runtime;
  const onStart = (started: Runtime): void => {
    engine = started;
  };
  const logger = { ...silent, warn: (message: string) => void warnings.push(message) };
  const options = { name: 'test', version: 'v1', logger, workflows: [wf], database: await backend.newDatabase() };
  const app = await launchWith(options, { onStart, reclaimEveryMs: 5 });
  onTestFinished(() => app.shutdown());
  const start = () => wf.with({ app }).start();
  return { begun, warnings, firstDone, goOn, start, ...handles(engine) };
}

type Statements = Record<string, (...args: unknown[]) => unknown>;

function handles(engine: Runtime) {
  /** Replaces a statement. Returns the real one. */
  const replace = (noun: 'steps' | 'workflows' | 'queues' | 'takeovers', name: string, by: Statements[string]) => {
    const statements = engine.storage[noun] as unknown as Statements;
    const real = statements[name]?.bind(statements) as Statements[string];
    statements[name] = by;
    return real;
  };
  return {
    /** Delays the next such statement, before it is sent or after it is done, until the test opens the gate. */
    hold: (noun: 'steps' | 'workflows' | 'queues', name: string, when: 'before' | 'after') => {
      const [reached, answer] = [gate(), gate()];
      const real = replace(noun, name, async (...args) => {
        const done = when === 'after' ? await real(...args) : undefined;
        // A query that claimed nothing is not the awaited one.
        if ((done as Dequeued | undefined)?.claimed?.length === 0) return done;
        replace(noun, name, real);
        reached.open();
        await answer.promise;
        return done ?? real(...args);
      });
      return { reached, answer };
    },
    /** Simulates a lost connection, and waits for all queries that follow from it. */
    looks: async (nth = 0, during = (): void => {}) => {
      let looks = 0;
      const real = replace('takeovers', 'pendingUnder', (of) => {
        if (++looks === nth) during();
        return real(of);
      });
      const lost = engine.storage as { lostConnections(): number };
      lost.lostConnections = () => 1;
      await expect.poll(() => looks, { interval: 5 }).toBeGreaterThanOrEqual(4);
      if (nth > 0) return;
      // The fifth query starts when everything that follows from the fourth is done.
      lost.lostConnections = () => 2;
      await expect.poll(() => looks, { interval: 5 }).toBeGreaterThan(4);
    },
    /** Drops the workflow as if it had ended here, or been taken over, by a commit that the database has lost. */
    letGo: (id: string) => {
      const { owner = '' } = engine.executions.inMemory.get(id)?.claim ?? {};
      engine.executions.supersede(id, owner, { owner: null, status: 'PENDING' });
    },
    /** Puts the workflow back like a process that considers this one dead. This process notices. */
    putBack: async (id: string) => {
      const { owner = '' } = engine.executions.inMemory.get(id)?.claim ?? {};
      await engine.storage.workflows.release({ owned: [{ workflowId: id, owner }], queueName: internalQueue, now: 0 });
      engine.executions.supersede(id, owner, { owner: null, status: 'ENQUEUED' });
      engine.news.announce('queues');
    },
  };
}
