import { expect, it } from 'vitest';
import { connect, queue, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { listeningSessions, tamper } from '../support/faults.js';
import { launchFleet, Stage } from '../support/queues.js';

/** The clock does not move in these tests, so nothing happens because of a poll. */
describeBackends('queue notifications', (backend) => {
  it('let an idle app start at once the work that it enqueues itself', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q'), queue('r', { concurrency: 1 })] });
    await t.clock.advance('1h');
    const polls = t.statements.filter((name) => name === 'queues.overview').length;
    await stage.wf.with({ queue: 'q' }).start('q');
    await stage.wf.with({ queue: 'r' }).start('r');
    await stage.wf.with({ dedupId: 'no queue' }).start('no queue');
    await stage.begins(3);
    expect(t.statements.filter((name) => name === 'queues.overview')).toHaveLength(polls);
  });

  it('let another process start work at once, whether a process, a batch or a client enqueues it', async () => {
    const stage = new Stage();
    const database = await backend.newDatabase();
    const options = { database, workflows: [stage.wf], version: 'v', queues: [queue('q', { concurrency: 9 })] };
    const [worker] = (await launchFleet(backend, 1, options)) as [TestApp];
    const web = await backend.testApp({ ...options, clock: worker.clock, executorId: 'web', listen: [] });
    const client = await connect({ database, logger: silent });
    await stage.wf.with({ queue: 'q', app: web.app }).start('a process');
    await stage.begins(1);
    await stage.wf.with({ queue: 'q', app: web.app }).startAll([['a batch'], ['a batch']]);
    await stage.begins(3);
    await client.start('staged', { queue: 'q' }, 'a client');
    await stage.begins(4);
    expect(stage.now('on e0')).toBe(4);
    await client.close();
  });

  it('offer a slot that becomes free in one process to another process that can use it', async () => {
    const [here, there] = [new Stage(), new Stage()];
    const other = workflow('other', async () => there.begun.push('ran there'));
    const shared = { database: await backend.newDatabase(), version: 'v' };
    const q = queue('q', { concurrency: 1 });
    const one = await backend.testApp({ ...shared, workflows: [here.wf], queues: [q], executorId: 'one' });
    const two = await backend.testApp({ ...shared, workflows: [other], clock: one.clock, executorId: 'two' });
    await here.wf.with({ queue: q }).start('has the slot');
    await here.begins(1);
    const next = await other.with({ queue: q }).start();
    await one.clock.advance('5s');
    expect(there.begun).toEqual([]);
    here.end();
    // The test waits in the process that runs the workflow, because a wait in another process would poll.
    await two.app.workflows.handle(next.id).result();
    expect(there.begun).toEqual(['ran there']);
  });

  it('let every process notice at once that a queue is resumed, changed or new', async () => {
    const stage = new Stage();
    const [one, two] = (await launchFleet(backend, 2, {
      workflows: [stage.wf],
      queues: [queue('q', { workerConcurrency: 1 })],
    })) as [TestApp, TestApp];
    await one.app.queues.pause('q');
    await stage.wf.with({ queue: 'q', app: one.app }).startAll([['a'], ['b'], ['c'], ['d'], ['e']]);
    await one.clock.advance('5s');
    await one.app.queues.resume('q');
    await stage.begins(2);
    await one.clock.advance('5s');
    expect(stage.now()).toBe(2);
    await one.app.queues.update('q', { workerConcurrency: 2 });
    await stage.begins(4);
    expect([stage.now('on e0'), stage.now('on e1')]).toEqual([2, 2]);
    await two.app.queues.register('new');
    await stage.wf.with({ queue: 'new', app: two.app }).start('new');
    await stage.begins(5);
  });

  it('let a process start delayed work on time, even if another process set or shortened the delay', async () => {
    const stage = new Stage();
    const options = { database: await backend.newDatabase(), workflows: [stage.wf], queues: [queue('q')] };
    const [worker] = (await launchFleet(backend, 1, options)) as [TestApp];
    const web = await backend.testApp({ ...options, clock: worker.clock, executorId: 'web', listen: [] });
    const looks = () => worker.statements.filter((name) => name === 'queues.overview').length;
    const noticed = async <T>(call: () => Promise<T>): Promise<T> => {
      const before = looks();
      const result = await call();
      await expect.poll(looks).toBeGreaterThan(before);
      return result;
    };
    const start = (label: string, delay: string) => () =>
      stage.wf.with({ queue: 'q', delay, app: web.app }).start(label);
    const later = await noticed(start('later', '10m'));
    await noticed(start('sooner', '300ms'));
    await noticed(() => web.app.workflows.setDelay(later.id, '200ms'));
    const peersRead = () => worker.statements.filter((name) => name === 'executors.list').length;
    const before = peersRead();
    await web.app.shutdown();
    // The worker reads the executors again: the stopped process might have been the first to promote delayed work.
    await expect.poll(peersRead).toBeGreaterThan(before);
    await worker.clock.advance('199ms');
    expect(stage.begun).toEqual([]);
    await worker.clock.advance('101ms');
    expect(stage.begun).toEqual(['later', 'sooner']);
  });

  it('reach callers in another process that wait for a result', async () => {
    const database = await backend.newDatabase();
    const wf = workflow('wf', async () => 'done');
    const worker = await backend.testApp({ database, workflows: [wf], queues: [queue('q')], version: 'v' });
    const other = { database, clock: worker.clock, executorId: 'web', version: 'v', listen: [], workflows: [wf] };
    const web = await backend.testApp(other);
    const handle = await wf.with({ queue: 'q', app: web.app }).start();
    expect(await handle.result()).toBe('done');
  });
});

describeBackends(
  'lost queue notifications',
  (backend) => {
    it('cost only time: a poll finds the work', async () => {
      const stage = new Stage();
      const database = await backend.newDatabase();
      const t = await backend.testApp({ database, workflows: [stage.wf], queues: [queue('q')] });
      await t.app.queues.pause('q');
      await stage.wf.with({ queue: 'q' }).start('found');
      await t.clock.advance('5s');
      await tamper(database, 'update queues set paused = false, turn = turn + 1');
      await t.clock.advance(0);
      expect(stage.begun).toEqual([]);
      await t.clock.advance('2500ms');
      expect(stage.begun).toEqual(['found']);
    });

    it('do no harm when the connection breaks: the process soon reconnects and finds the work', async () => {
      const stage = new Stage();
      const database = await backend.newDatabase();
      const options = { database, workflows: [stage.wf], queues: [queue('q')] };
      const [worker] = (await launchFleet(backend, 1, options)) as [TestApp];
      const web = await backend.testApp({ ...options, clock: worker.clock, executorId: 'web', listen: [] });
      const listeners = () => listeningSessions(database);
      const start = (label: string) => stage.wf.with({ queue: 'q', app: web.app }).start(label);
      const before = await listeners();
      expect(before).toHaveLength(2);
      for (const { pid } of before) await tamper(database, `select pg_terminate_backend(${pid})`);
      await start('while it was broken');
      await stage.begins(1);
      await expect.poll(async () => (await listeners()).length).toBe(2);
      expect(await listeners()).not.toEqual(expect.arrayContaining([before[0]]));
      await start('afterwards');
      await stage.begins(2);
    });
  },
  ['postgres'],
);
