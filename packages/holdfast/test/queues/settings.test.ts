import { expect, it } from 'vitest';
import { connect, type QueueStatus, queue, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure } from '../support/faults.js';
import { launchFleet, playOut, rowCounts, Stage } from '../support/queues.js';

/** Tests stored queues: how they are registered, changed and deleted while they are in use. */
describeBackends('the settings of a queue', (backend) => {
  const numbers = (count: number): [string][] => Array.from({ length: count }, (_, i) => [`${i}`]);

  it('are shown as they were given, with defaults', async () => {
    const t = await backend.testApp({ queues: [queue('plain')] });
    const full = {
      concurrency: 5,
      workerConcurrency: 2,
      rateLimit: { max: 10, per: '1m' },
      partition: { concurrency: 1, rateLimit: { max: 3, per: 1500 } },
      priority: false,
      whileWaiting: 'release' as const,
    };
    const registered = await t.app.queues.register('full', full);
    const none = { concurrency: undefined, workerConcurrency: undefined, rateLimit: undefined };
    const now = t.clock.now();
    const common = { appName: 'test', paused: false, createdAt: now, updatedAt: now };
    expect(registered).toEqual({
      ...common,
      ...full,
      name: 'full',
      rateLimit: { max: 10, per: 60_000 },
      partition: { ...none, concurrency: 1, rateLimit: { max: 3, per: 1500 } },
    });
    const empty = { waiting: 0, running: 0, suspended: 0, delayed: 0 };
    expect(await t.app.queues.get('full')).toEqual({ ...registered, ...empty });
    expect(await t.app.queues.get('plain')).toEqual({
      ...common,
      ...none,
      ...empty,
      name: 'plain',
      partition: undefined,
      priority: true,
      whileWaiting: 'hold',
    });
    expect((await t.app.queues.list()).map(({ name }) => name)).toEqual(['full', 'plain']);
    expect(await t.app.queues.get('none')).toBeUndefined();
  });

  it('are shown by an app and a client with the numbers of waiting, running and delayed workflows', async () => {
    const stage = new Stage();
    const database = await backend.newDatabase();
    const queues = [queue('busy', { concurrency: 2 }), queue('idle')];
    const t = await backend.testApp({ database, workflows: [stage.wf], queues });
    const start = stage.wf.with({ queue: 'busy' });
    const handles = await start.startAll([['a'], ['b'], ['c'], ['d'], ['e']]);
    await stage.wf.with({ queue: 'busy', delay: '1h' }).start('later');
    await t.clock.advance(0);
    const client = await connect({ database, logger: silent });
    const counts = ({ name, waiting, running, delayed }: QueueStatus) => [name, waiting, running, delayed];
    const idle = ['idle', 0, 0, 0];
    for (const { queues: seen } of [t.app, client]) {
      expect((await seen.list()).map(counts)).toEqual([['busy', 3, 2, 1], idle]);
      expect(await seen.get('busy')).toMatchObject({ waiting: 3, running: 2, delayed: 1, concurrency: 2 });
    }
    await handles[4]?.cancel();
    stage.end(1);
    await t.clock.advance(0);
    expect((await client.queues.list()).map(counts)).toEqual([['busy', 1, 2, 1], idle]);
    await client.close();
  });

  it('are stored by a launch of the latest version, but not by a relaunch of an older version', async () => {
    const at = (concurrency: number) => ({ queues: [queue('q', { concurrency })] });
    let t = await backend.testApp({ version: 'one', ...at(1) });
    const stored = async () => (await t.app.queues.get('q'))?.concurrency;
    await t.clock.advance('1m');
    t = await t.restart({ version: 'two', ...at(2) });
    expect(await stored()).toBe(2);
    t = await t.restart({ version: 'one', ...at(1) });
    expect(await stored()).toBe(2);
    t = await t.restart({ version: 'two', ...at(3) });
    expect(await stored()).toBe(3);
    t = await t.restart({ version: 'one', ...at(1) });
    await t.app.versions.setLatest('one');
    t = await t.restart({ version: 'one', ...at(1) });
    expect(await stored()).toBe(1);
  });

  it('are stored always or never, if onConflict says so', async () => {
    const at = (concurrency: number, onConflict: 'always' | 'never') => ({
      queues: [queue('q', { concurrency, onConflict })],
    });
    let t = await backend.testApp({ version: 'one', ...at(1, 'never') });
    const stored = async () => (await t.app.queues.get('q'))?.concurrency;
    expect(await stored()).toBe(1);
    t = await t.restart({ version: 'two', ...at(2, 'never') });
    expect(await stored()).toBe(1);
    t = await t.restart({ version: 'one', ...at(3, 'always') });
    expect(await stored()).toBe(3);
    await t.app.queues.pause('q');
    t = await t.restart({ version: 'two', ...at(4, 'always') });
    // An operator paused the queue, so no deploy resumes it.
    expect(await t.app.queues.get('q')).toMatchObject({ concurrency: 4, paused: true });
  });

  it('can be raised, lowered and removed while work is waiting and running', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', { concurrency: 2 })] });
    const { update } = t.app.queues;
    const begun = async () => {
      await t.clock.advance(0);
      return stage.begun.length;
    };
    await stage.wf.with({ queue: 'q' }).startAll(numbers(30));
    expect(await begun()).toBe(2);
    expect(await update('q', { concurrency: 5 })).toMatchObject({ concurrency: 5, priority: true });
    expect(await begun()).toBe(5);
    await update('q', { concurrency: 1 });
    stage.end(4);
    expect(await begun()).toBe(5);
    stage.end();
    expect(await begun()).toBe(6);
    await update('q', { concurrency: null, workerConcurrency: 3 });
    expect(await begun()).toBe(8);
    await update('q', { rateLimit: { max: 2, per: '1m' }, workerConcurrency: null });
    expect(await begun()).toBe(10);
    expect(await update('q', { rateLimit: null })).toMatchObject({ concurrency: undefined, rateLimit: undefined });
    expect(await begun()).toBe(30);
    await stage.wf.with({ queue: 'q' }).startAll(numbers(5));
    await update('q', { concurrency: 40 });
    expect(await begun()).toBe(35);
  });

  it('change only where an update names them', async () => {
    const given = {
      concurrency: 4,
      rateLimit: { max: 1, per: '1s' },
      partition: { concurrency: 2, workerConcurrency: 1 },
    };
    const t = await backend.testApp({ queues: [queue('q', given)] });
    const before = await t.app.queues.get('q');
    const changed = await t.app.queues.update('q', { partition: { concurrency: null }, priority: false });
    expect({ ...changed, waiting: 0, running: 0, suspended: 0, delayed: 0 }).toEqual({
      ...before,
      partition: { concurrency: undefined, workerConcurrency: 1, rateLimit: undefined },
      priority: false,
      updatedAt: expect.any(Number),
    });
    expect(changed.updatedAt).toBeGreaterThan(before?.updatedAt ?? 0);
    expect(await t.app.queues.update('q', {})).toMatchObject({ concurrency: 4, priority: false });
  });

  it('survive fifty concurrent updates: each update keeps the changes of the others', async () => {
    const [one, two] = (await launchFleet(backend, 2, { queues: [queue('q')] })) as [TestApp, TestApp];
    const names = ['concurrency', 'workerConcurrency'] as const;
    await Promise.all(
      Array.from({ length: 50 }, (_, i) => {
        const name = names[i % 2] as 'concurrency';
        return (i % 3 ? one : two).app.queues.update('q', { [name]: 100 + i });
      }),
    );
    const { concurrency = 0, workerConcurrency = 0 } = (await one.app.queues.get('q')) ?? {};
    expect([concurrency % 2, workerConcurrency % 2]).toEqual([0, 1]);
    expect(Math.min(concurrency, workerConcurrency)).toBeGreaterThanOrEqual(100);
  });

  it('can add and remove partitions while work is waiting and running', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', { concurrency: 1 })] });
    await stage.wf.with({ queue: 'q' }).startAll(numbers(3));
    await stage.wf.with({ queue: 'q', delay: '1m' }).start('delayed');
    await t.clock.advance(0);
    await t.app.queues.update('q', { concurrency: null, partition: { concurrency: 1 } });
    await t.clock.advance('2m');
    // Workflows without a partition key share one partition.
    expect(stage.begun.length).toBeLessThanOrEqual(2);
    await playOut(stage, 4);
    await t.app.queues.update('q', { partition: { concurrency: 2 } });
    await stage.wf.with({ queue: 'q', partition: 'a' }).startAll(numbers(6));
    await t.clock.advance(0);
    expect(stage.now()).toBe(2);
    expect(await t.app.queues.update('q', { partition: null, concurrency: 5 })).toMatchObject({ partition: undefined });
    await t.clock.advance(0);
    expect(stage.now()).toBe(5);
    await stage.wf.with({ queue: 'q' }).start('without a key');
    stage.end();
    await t.clock.advance(0);
    expect(stage.begun).toHaveLength(11);
  });

  it('that add partitions strand no workflow that is recovered, resumed or enqueued with old settings', async () => {
    const stage = new Stage();
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [stage.wf], queues: [queue('q', { concurrency: 1 })] });
    const client = await connect({ database, logger: silent });
    await stage.wf.with({ queue: 'q' }).start('recovered');
    await t.clock.advance(0);
    expect(stage.begun).toEqual(['recovered']);
    const resumed = await client.start('staged', { queue: 'q' }, 'resumed');
    await resumed.cancel();
    await t.app.queues.update('q', { concurrency: null, partition: {} });
    stage.crashed();
    const again = await t.restart({ queues: [] });
    // The client still has the old settings in its cache.
    await client.start('staged', { queue: 'q' }, 'in ignorance');
    await client.startAll('staged', { queue: 'q' }, [['in ignorance']]);
    await again.app.workflows.resume(resumed.id);
    await again.clock.advance('5s');
    expect(stage.begun.sort()).toEqual(['in ignorance', 'in ignorance', 'recovered', 'recovered', 'resumed']);
    await client.close();
  });

  it('cannot be changed on an unknown queue, and the error suggests a known one', async () => {
    const t = await backend.testApp({ queues: [queue('emails')] });
    const { queues } = t.app;
    const calls = [
      () => queues.update('emils', { concurrency: 1 }),
      () => queues.pause('email'),
      () => queues.resume('emailss'),
      () => queues.delete('Emails'),
    ];
    for (const call of calls) {
      const error = await failure(call());
      expect(error).toMatchObject({ code: 'UNKNOWN_QUEUE', details: { known: ['emails'] } });
      expect(error.message).toContain('Did you mean "emails"?');
    }
  });

  it('can be deleted when the queue has no unfinished workflows, and the queue is unknown afterwards', async () => {
    const stage = new Stage();
    const database = await backend.newDatabase();
    const [one, two] = (await launchFleet(backend, 2, {
      database,
      workflows: [stage.wf],
      queues: [queue('q', { concurrency: 1 })],
    })) as [TestApp, TestApp];
    const start = () => stage.wf.with({ queue: 'q', app: two.app });
    await start().startAll([['running'], ['waiting']]);
    const delayed = await stage.wf.with({ queue: 'q', delay: '1h', app: one.app }).start('delayed');
    await stage.begins(1);
    const refused = await failure(one.app.queues.delete('q'));
    expect(refused).toMatchObject({ code: 'QUEUE_NOT_EMPTY', details: { name: 'q', count: 3 } });
    await playOut(stage, 2);
    await expect.poll(async () => (await one.app.workflows.list({ status: 'SUCCESS' })).length).toBe(2);
    expect(await failure(one.app.queues.delete('q'))).toMatchObject({ details: { count: 1 } });
    await delayed.cancel();
    await one.app.queues.delete('q');
    // The other process still has the queue in its cache.
    expect(await failure(start().start('x'))).toMatchObject({ code: 'UNKNOWN_QUEUE' });
    expect(await failure(start().startAll([['x']]))).toMatchObject({ code: 'UNKNOWN_QUEUE' });
    expect(await rowCounts(database)).toEqual({ workflows: 3, queues: 0 });
    expect(await failure(one.app.queues.delete('q'))).toMatchObject({ code: 'UNKNOWN_QUEUE' });
  });

  it('that another process or a client registers reach running processes without a restart', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async (label: string) => void ran.push(label));
    const database = await backend.newDatabase();
    const worker = await backend.testApp({ workflows: [wf], database, version: 'v' });
    const other = await backend.testApp({ database, clock: worker.clock, version: 'v', executorId: 'other' });
    const client = await connect({ database, logger: silent });
    await other.app.queues.register(queue('by another process', { concurrency: 1 }));
    await client.queues.register('by a client', { concurrency: 1 });
    await client.start('wf', { queue: 'by another process' }, 'a');
    await wf.with({ queue: 'by a client' }).start('b');
    // The call may reach the other process first, which lacks the workflow. This process queries milliseconds later.
    const later = () => worker.clock.advance('100ms').then(() => ran.length);
    await expect.poll(later).toBe(2);
    expect(await client.queues.get('by a client')).toMatchObject({ appName: undefined });
    await client.close();
  });

  it('count running workflows in their new partition when partitions are added', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', { workerConcurrency: 1 })] });
    await stage.wf.with({ queue: 'q' }).startAll([['a'], ['b']]);
    await stage.begins(1);
    await t.app.queues.update('q', { workerConcurrency: null, partition: { workerConcurrency: 1 } });
    await t.clock.advance('5s');
    expect(stage.now()).toBe(1);
    stage.end();
    await stage.begins(2);
    stage.end();
    expect(stage.peak()).toBe(1);
  });
});
