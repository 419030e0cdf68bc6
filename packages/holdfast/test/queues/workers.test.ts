import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, recordingLogger } from '../support/faults.js';
import { launchFleet, rowCounts, Stage } from '../support/queues.js';

/** Tests which processes work on a queue, and when no process does: pauses, `listen`, other applications. */
describeBackends('work on a queue', (backend) => {
  const numbers = (count: number): [string][] => Array.from({ length: count }, (_, i) => [`${i}`]);

  it.each([
    ['with a limit', { concurrency: 3 }],
    ['without a limit', {}],
    ['with partitions', { partition: {} }],
  ])('does not start while the queue is paused (%s), but running work and enqueueing continue', async (_, options) => {
    const stage = new Stage();
    const partition = 'partition' in options ? { partition: 'a' } : {};
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', options)] });
    const first = await stage.wf.with({ queue: 'q', ...partition }).start('first');
    await t.clock.advance(0);
    expect(await t.app.queues.pause('q')).toMatchObject({ paused: true });
    await stage.wf.with({ queue: 'q', ...partition }).startAll(numbers(3));
    stage.end();
    expect(await first.result()).toBe('first');
    await t.clock.advance('1h');
    expect(stage.begun).toEqual(['first']);
    expect((await t.app.workflows.list({ queue: 'q', status: 'ENQUEUED' })).length).toBe(3);
    expect(await t.app.queues.pause('q')).toMatchObject({ paused: true });
    expect(await t.app.queues.resume('q')).toMatchObject({ paused: false });
    await t.clock.advance(0);
    expect(stage.now()).toBe(3);
  });

  it('is not taken by any process once pause() has resolved', async () => {
    const wf = workflow('wf', async () => {});
    const fleet = await launchFleet(backend, 3, {
      workflows: [wf],
      queues: [queue('q'), queue('r', { concurrency: 2 })],
    });
    const [one, two] = fleet as [TestApp, TestApp];
    for (const name of ['q', 'r']) {
      for (let round = 0; round < 2; round++) {
        const enqueued = Array.from({ length: 20 }, () => wf.with({ queue: name, app: two.app }).start());
        await Promise.all(enqueued.slice(0, 10));
        await one.app.queues.pause(name);
        const taken = async () => {
          const waiting = await one.app.workflows.list({ queue: name, status: 'ENQUEUED' });
          return waiting.map(({ workflowId }) => workflowId);
        };
        const before = await taken();
        await Promise.all(enqueued);
        await one.clock.advance('5s');
        expect(await taken()).toEqual(expect.arrayContaining(before));
        await one.app.queues.resume(name);
      }
    }
  });

  it('stays paused after a restart, even if the launch defines the queue', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q')] });
    await t.app.queues.pause('q');
    await stage.wf.with({ queue: 'q' }).start('waits');
    const again = await t.restart();
    await again.clock.advance('1m');
    expect(stage.begun).toEqual([]);
    await again.app.queues.resume('q');
    await again.clock.advance(0);
    expect(stage.begun).toEqual(['waits']);
  });

  it('goes back to the queue, and stays there, when its process dies while the queue is paused', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', { concurrency: 1 })] });
    const { id } = await stage.wf.with({ queue: 'q' }).start('first');
    await t.clock.advance(0);
    await t.app.queues.pause('q');
    const again = await t.restart();
    await again.clock.advance('1m');
    expect(await again.app.workflows.get(id)).toMatchObject({ status: 'ENQUEUED', attempts: 1 });
    expect(stage.begun).toEqual(['first']);
  });

  it('is done only by processes that listen to the queue', async () => {
    const stage = new Stage();
    const database = await backend.newDatabase();
    const shared = { database, workflows: [stage.wf] };
    const [none] = (await launchFleet(backend, 1, {
      ...shared,
      listen: [],
      queues: [queue('a'), queue('b')],
    })) as [TestApp];
    for (const name of ['a', 'b']) await stage.wf.with({ queue: name, app: none.app }).start(name);
    // A start without a queue runs at once. A start with only a delay runs in any process.
    await stage.wf.with({ app: none.app }).start('no queue');
    await stage.wf.with({ app: none.app, delay: '1s' }).start('no queue, delayed');
    await none.clock.advance('5s');
    expect(stage.begun).toEqual(['no queue', 'no queue, delayed']);
    const one = await backend.testApp({ ...shared, listen: ['b'], clock: none.clock, executorId: 'one' });
    await none.clock.advance('5s');
    expect(stage.begun.slice(2)).toEqual(['b']);
    await one.app.queues.register('later');
    const all = await backend.testApp({ ...shared, clock: none.clock, executorId: 'all' });
    await stage.wf.with({ queue: 'later', app: one.app }).start('later');
    await stage.begins(5);
    expect(stage.begun.slice(3).sort()).toEqual(['a', 'later']);
    expect([stage.now('on one'), stage.now('on all')]).toEqual([1, 2]);
    await all.app.shutdown();
  });

  it('causes a warning at launch if listen names an unknown queue, and runs once the queue exists', async () => {
    const stage = new Stage();
    const logger = recordingLogger();
    const t = await backend.testApp({
      workflows: [stage.wf],
      queues: [queue('emails')],
      listen: ['emials', 'emails', 'later'],
      logger,
    });
    expect(logger.lines).toEqual([
      expect.stringMatching(/listen.*no queue "emials".*Did you mean "emails"\?/),
      expect.stringMatching(/listen.*no queue "later"/),
    ]);
    await t.app.queues.register('later');
    await stage.wf.with({ queue: 'later' }).start('later');
    await t.clock.advance(0);
    expect(stage.begun).toEqual(['later']);
  });

  it('runs in the application that owns the queue, at its version, with one warning', async () => {
    const here = workflow('shared', async () => 'here');
    const there = workflow('shared', async () => 'there');
    const logger = recordingLogger();
    const database = await backend.newDatabase();
    const worker = await backend.testApp({
      database,
      name: 'worker',
      version: 'w7',
      workflows: [there],
      queues: [queue('jobs')],
    });
    const web = { database, clock: worker.clock, name: 'web', executorId: 'web', workflows: [here], logger };
    await backend.testApp(web);
    const handles = [await here.with({ queue: 'jobs' }).start(), await here.with({ queue: 'jobs' }).start()];
    for (const { id } of handles) expect(await worker.app.workflows.handle(id).result()).toBe('there');
    expect(await handles[0]?.status()).toMatchObject({ appName: 'worker', version: 'w7', executorId: 'test' });
    expect(logger.lines).toEqual([expect.stringMatching(/Queue "jobs" belongs to the app "worker".*run in that app/)]);
  });

  it('belongs to one application: the launch of another application with the same queue is refused', async () => {
    const database = await backend.newDatabase();
    const owner = await backend.testApp({ database, name: 'owner', queues: [queue('jobs', { concurrency: 1 })] });
    const before = await owner.app.queues.list();
    const mine = queue('jobs', { concurrency: 9, onConflict: 'always' });
    const other = { database, clock: owner.clock, name: 'other', executorId: 'other', version: 'one' };
    const t = await backend.testApp(other);
    expect(await failure(t.app.queues.register(mine))).toMatchObject({ code: 'QUEUE_CONFLICT' });
    await t.clock.advance('1m');
    const next = { ...other, version: 'two', queues: [queue('new'), mine] };
    expect(await failure(backend.testApp(next))).toMatchObject({
      code: 'QUEUE_CONFLICT',
      details: { name: 'jobs', owner: 'owner' },
    });
    expect(await owner.app.queues.list()).toEqual(before);
    // The refused version is not the latest either. Otherwise work would go to a version that no process runs.
    expect(await t.app.versions.latest()).toMatchObject({ name: 'one' });
    expect(await rowCounts(database)).toMatchObject({ queues: 1 });
  });
});
