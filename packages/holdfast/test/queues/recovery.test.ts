import { expect, it } from 'vitest';
import { queue, run, sleep, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, gate } from '../support/faults.js';
import { launchFleet, playOut, Stage } from '../support/queues.js';

/** Tests what happens to queued work, its slot and its attempts when the work is cancelled or its process dies. */
describeBackends('recovery of queued work', (backend) => {
  const numbers = (count: number): [string][] => Array.from({ length: count }, (_, i) => [`${i}`]);

  it.each([
    ['concurrency', { concurrency: 2 }],
    ['workerConcurrency', { workerConcurrency: 2 }],
    ['partition.concurrency', { partition: { concurrency: 2 } }],
    ['partition.workerConcurrency', { partition: { workerConcurrency: 2 } }],
  ])('puts the work back on its queue, and %s still limits it after a restart', async (_, options) => {
    const stage = new Stage();
    const partition = 'partition' in options ? { partition: 'a' } : {};
    let t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', options)] });
    const handles = await stage.wf.with({ queue: 'q', ...partition }).startAll(numbers(5));
    await t.clock.advance(0);
    for (let restart = 0; restart < 2; restart++) {
      stage.crashed();
      t = await t.restart();
      await t.clock.advance('5s');
      expect(stage.now()).toBe(2);
    }
    // The workflows that had already begun start first again.
    expect(stage.begun.map(Number).sort()).toEqual([0, 0, 0, 1, 1, 1]);
    expect(await t.app.workflows.get(handles[0]?.id ?? '')).toMatchObject({ status: 'PENDING', attempts: 3 });
    await playOut(stage, 9);
    expect(stage.peak()).toBe(2);
  });

  it('does not run finished steps again, and counts one attempt per start', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async () => {
      await run('first', () => ran.push('first'));
      await sleep('1h');
      await run('second', () => ran.push('second'));
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q', { concurrency: 1 })] });
    const { id } = await wf.with({ queue: 'q' }).start();
    expect(await t.app.workflows.get(id)).toMatchObject({ attempts: 0, startedAt: undefined });
    await t.clock.advance('1m');
    expect(await t.app.workflows.get(id)).toMatchObject({ attempts: 1 });
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe('done');
    expect(ran).toEqual(['first', 'second']);
    expect(await again.app.workflows.get(id)).toMatchObject({ attempts: 2 });
  });

  it('frees the slots of a dead process for the rest of the fleet', async () => {
    const stage = new Stage();
    const [one, two] = (await launchFleet(backend, 2, {
      workflows: [stage.wf],
      queues: [queue('q', { concurrency: 2, workerConcurrency: 1 })],
    })) as [TestApp, TestApp];
    await stage.wf.with({ queue: 'q', app: one.app }).startAll(numbers(4));
    await stage.begins(2);
    await one.crash();
    stage.endOf((await two.app.workflows.list({ executorId: 'e1', status: 'PENDING' }))[0]?.workflowId ?? '');
    await stage.begins(3);
    await two.app.recovery.recover(['e0']);
    await two.clock.advance('5s');
    stage.end();
    await stage.begins(4);
    await expect
      .poll(async () => {
        stage.end();
        await two.clock.advance('5s');
        return (await two.app.workflows.list({ status: 'SUCCESS' })).length;
      })
      .toBe(4);
    expect(stage.begun).toHaveLength(5);
  });

  it('starts the next workflow at once after a cancel, from the same process or from another', async () => {
    const stage = new Stage();
    const [one, two] = (await launchFleet(backend, 2, {
      workflows: [stage.wf],
      queues: [queue('q', { concurrency: 1 })],
    })) as [TestApp, TestApp];
    const handles = await stage.wf.with({ queue: 'q', app: one.app }).startAll(numbers(6));
    // The two processes cancel alternately. The clock does not move, so no workflow is found by polling.
    for (const [i, { id }] of handles.entries()) {
      await stage.begins(i + 1);
      await (i % 2 ? one : two).app.workflows.cancel(id);
    }
    expect(stage.begun).toEqual(['0', '1', '2', '3', '4', '5']);
  });

  it('resumes a cancelled workflow on its queue, within the limits of the queue', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', { concurrency: 1 })] });
    const first = await stage.wf.with({ queue: 'q' }).start('first');
    await t.clock.advance(0);
    await first.cancel();
    await stage.wf.with({ queue: 'q' }).start('second');
    await t.clock.advance(0);
    await t.app.workflows.resume(first.id);
    await t.clock.advance('5s');
    expect(await first.status()).toMatchObject({ status: 'ENQUEUED', queueName: 'q' });
    expect(stage.begun).toEqual(['first', 'second']);
    stage.end();
    await t.clock.advance(0);
    expect(stage.begun).toEqual(['first', 'second', 'first']);
  });

  it.each([1, 3])(
    'turns a workflow that kills its process into a dead letter after %i recoveries, and spares the others',
    async (most) => {
      /** Opens with the running app: an app may start work before its launch has returned. */
      let up = gate<TestApp>();
      let killed = false;
      const kill = async () => {
        void (await up.promise).crash();
        killed = true;
        return forever();
      };
      const work = async () => {
        await up.promise;
        for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      };
      const options = { maxRecoveryAttempts: most };
      const poison = workflow('poison', () => run('kill', kill), options);
      const innocent = workflow('innocent', (_: string) => run('work', work), options);
      let t = await backend.testApp({ workflows: [poison, innocent], queues: [queue('q')] });
      await t.app.queues.pause('q');
      const victims = await innocent.with({ queue: 'q' }).startAll(numbers(3));
      const killer = await poison.with({ queue: 'q' }).start();
      victims.push(...(await innocent.with({ queue: 'q' }).startAll(numbers(2))));
      await t.app.queues.resume('q');
      up.open(t);
      let crashes = 0;
      for (let polls = 0; polls < 40; polls++) {
        await t.clock.advance('2500ms');
        if (!killed) continue;
        [killed, up] = [false, gate<TestApp>()];
        crashes++;
        t = await t.restart();
        up.open(t);
      }
      expect(crashes).toBe(most + 1);
      expect(await t.app.workflows.get(killer.id)).toMatchObject({
        status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED',
        attempts: most + 2,
      });
      expect(await failure(t.app.workflows.handle(killer.id).result())).toMatchObject({ code: 'WORKFLOW_DEAD' });
      for (const { id } of victims) expect(await t.app.workflows.get(id)).toMatchObject({ status: 'SUCCESS' });
    },
  );

  it('frees the slot of a workflow that becomes a dead letter', async () => {
    const stage = new Stage();
    const hangs = workflow('hangs', () => run('hang', forever), { maxRecoveryAttempts: 0 });
    const t = await backend.testApp({ workflows: [stage.wf, hangs], queues: [queue('q', { concurrency: 1 })] });
    await hangs.with({ queue: 'q' }).start();
    await stage.wf.with({ queue: 'q' }).start('next');
    await t.clock.advance(0);
    expect(stage.begun).toEqual([]);
    const again = await t.restart();
    await again.clock.advance('5s');
    expect(stage.begun).toEqual(['next']);
  });
});
