import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Runtime } from '../../src/engine/runtime.js';
import { run, workflow } from '../../src/index.js';
import { internalQueue } from '../../src/model/queues.js';
import type { Dequeued } from '../../src/storage/contract/storage.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { gate } from '../support/faults.js';

describeBackends('after a lost connection, what is on its way into memory is not taken for lost', (backend) => {
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

  it('while the answer to a claim is on its way', async () => {
    const rig = await launchRig(backend);
    const handle = await rig.start();
    await rig.firstDone.promise;
    const claiming = rig.hold('workflows', 'dequeue', 'after');
    await rig.putBack(handle.id);
    await claiming.reached.promise;
    await rig.looks();
    claiming.answer.open();
    rig.goOn.open();
    expect(await handle.result()).toBe('done');
    expect([rig.begun, rig.warnings]).toEqual([['first', 'second'], []]);
  });

  it('while the answer to a start is on its way', async () => {
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

describeBackends('after a lost connection, what this process has let go of is given back', (backend) => {
  it('although it had begun to look for such work when it let go of this', async () => {
    const rig = await launchRig(backend);
    const handle = await rig.start();
    await rig.firstDone.promise;
    await rig.looks(3, () => rig.letGo(handle.id));
    rig.goOn.open();
    expect(await handle.result({ timeout: '10s' })).toBe('done');
    expect([rig.begun, rig.warnings]).toEqual([['first', 'second'], [expect.stringMatching(/has let go of/)]]);
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
  /** Puts something in the place of a statement. Returns the real one. */
  const replace = (noun: 'steps' | 'workflows' | 'takeovers', name: string, by: Statements[string]) => {
    const statements = engine.storage[noun] as unknown as Statements;
    const real = statements[name]?.bind(statements) as Statements[string];
    statements[name] = by;
    return real;
  };
  return {
    /** Holds the next such statement up, before it is sent or after it is done, until the test lets it go. */
    hold: (noun: 'steps' | 'workflows', name: string, when: 'before' | 'after') => {
      const [reached, answer] = [gate(), gate()];
      const real = replace(noun, name, async (...args) => {
        const done = when === 'after' ? await real(...args) : undefined;
        // A look for something else, which has claimed nothing.
        if ((done as Dequeued | undefined)?.claimed?.length === 0) return done;
        replace(noun, name, real);
        reached.open();
        await answer.promise;
        return done ?? real(...args);
      });
      return { reached, answer };
    },
    /** A connection is lost, and all looks are made that follow from that. */
    looks: async (nth = 0, during = (): void => {}) => {
      let looks = 0;
      const real = replace('takeovers', 'pendingUnder', (of) => {
        if (++looks === nth) during();
        return real(of);
      });
      const lost = engine.storage as { breaks(): number };
      lost.breaks = () => 1;
      await expect.poll(() => looks, { interval: 5 }).toBeGreaterThanOrEqual(4);
      if (nth > 0) return;
      // The next one begins when all is done that the fourth led to.
      lost.breaks = () => 2;
      await expect.poll(() => looks, { interval: 5 }).toBeGreaterThan(4);
    },
    /** As if it had ended here, or been taken over, by a commit that the database does not have any more. */
    letGo: (id: string) => {
      const { owner = '' } = engine.inMemory.get(id)?.claim ?? {};
      engine.superseded(id, owner, { owner: null, status: 'PENDING' });
    },
    /** As another process would that takes this one for dead, which it finds out. */
    putBack: async (id: string) => {
      const { owner = '' } = engine.inMemory.get(id)?.claim ?? {};
      await engine.storage.workflows.release({ owned: [{ workflowId: id, owner }], queueName: internalQueue, now: 0 });
      engine.superseded(id, owner, { owner: null, status: 'ENQUEUED' });
      engine.news.announce('queues');
    },
  };
}
