import { expect, it } from 'vitest';
import { connect, context, queue, workflow } from '../../src/index.js';
import type { TestApp, TestAppOptions } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { recordingLogger } from '../support/faults.js';
import { Stage } from '../support/queues.js';

/** Tests which process takes work from a queue: only one of the right version that has the workflow. */
describeBackends('queued work', (backend) => {
  const whoRan = () => workflow('wf', async () => context().version);

  /** Launches two versions of one app: `old`, and `new`, which is the latest version. */
  async function twoVersions(options: TestAppOptions): Promise<[TestApp, TestApp, string]> {
    const database = await backend.newDatabase();
    const old = await backend.testApp({ ...options, database, version: 'old', executorId: 'e-old' });
    await old.clock.advance('1m');
    const shared = { database, clock: old.clock, version: 'new', executorId: 'e-new' };
    return [old, await backend.testApp({ ...options, ...shared }), database];
  }

  it('runs at the version that enqueued it, or at the version that its start names', async () => {
    const wf = whoRan();
    const [old, newer] = await twoVersions({ workflows: [wf], queues: [queue('q')] });
    const results = [
      await wf.with({ queue: 'q', app: old.app }).start(),
      await wf.with({ queue: 'q', app: newer.app }).start(),
      await wf.with({ queue: 'q', app: newer.app, version: 'old' }).start(),
      await wf.with({ queue: 'q', app: old.app, version: 'new' }).start(),
      await wf.with({ app: old.app, version: 'new' }).start(),
    ].map((handle) => handle.result());
    await old.clock.advance('5s');
    expect(await Promise.all(results)).toEqual(['old', 'new', 'old', 'new', 'new']);
  });

  it('waits until a process runs the version that its start names', async () => {
    const wf = whoRan();
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q')], version: 'one' });
    const handle = await wf.with({ queue: 'q', version: 'two' }).start();
    await t.clock.advance('1h');
    expect(await handle.status()).toMatchObject({ status: 'ENQUEUED', version: 'two', attempts: 0 });
    const again = await t.restart({ version: 'two' });
    expect(await again.app.workflows.handle(handle.id).result()).toBe('two');
  });

  it('without a version runs only at the latest version, and setLatest moves it at once', async () => {
    const wf = whoRan();
    const ran: unknown[] = [];
    const [old, newer, database] = await twoVersions({ workflows: [wf], queues: [queue('q')] });
    const client = await connect({ database, name: 'test', logger: silent });
    for (let i = 0; i < 3; i++) await (await client.start('wf', { queue: 'q' })).result().then((by) => ran.push(by));
    await newer.app.shutdown();
    const waiting = await client.start('wf', { queue: 'q' });
    await old.clock.advance('1m');
    expect(await waiting.status()).toMatchObject({ status: 'ENQUEUED', version: undefined });
    await old.app.versions.setLatest('old');
    await old.clock.advance(0);
    expect(await waiting.status()).toMatchObject({ status: 'SUCCESS', version: 'old' });
    expect(ran).toEqual(['new', 'new', 'new']);
    await client.close();
  });

  it('of another version is neither taken nor counted, so the work behind it runs', async () => {
    const stage = new Stage();
    for (const options of [{ concurrency: 1 }, { concurrency: 1, partition: {} }, { partition: { concurrency: 1 } }]) {
      const partition = 'partition' in options ? { partition: 'a' } : {};
      const t = await backend.testApp({ workflows: [stage.wf], queues: [queue('q', options)] });
      const before = stage.begun.length;
      const start = { queue: 'q', ...partition };
      await stage.wf.with({ ...start, version: 'gone' }).startAll(Array.from({ length: 300 }, () => ['never']));
      await stage.wf.with(start).startAll([['a'], ['b']]);
      await t.clock.advance(0);
      expect(stage.begun.slice(before)).toEqual(['a']);
      stage.end();
      await t.clock.advance(0);
      expect(stage.begun.slice(before)).toEqual(['a', 'b']);
      await t.stop();
    }
  });

  it('of an unregistered workflow delays no other work, causes a warning, and runs after registration', async () => {
    const logger = recordingLogger();
    const database = await backend.newDatabase();
    const stage = new Stage();
    const late = workflow('late', async () => 'ran after all');
    const shared = { database, workflows: [stage.wf], version: 'v', queues: [queue('q', { concurrency: 1 })] };
    const t = await backend.testApp({ ...shared, logger });
    const client = await connect({ database, logger: silent });
    await t.app.queues.pause('q');
    const labels = Array.from({ length: 9 }, (_, i) => `${i}`);
    for (const label of labels.slice(0, 3)) await client.start('staged', { queue: 'q' }, label);
    const stranger = await client.start('late', { queue: 'q' });
    for (const label of labels.slice(3)) await client.start('staged', { queue: 'q' }, label);
    await t.app.queues.resume('q');
    for (let i = 1; i <= 9; i++) {
      await stage.begins(i);
      stage.end();
    }
    await t.clock.advance('1m');
    expect(stage.begun).toEqual(labels);
    expect(await stranger.status()).toMatchObject({ status: 'ENQUEUED', attempts: 0 });
    const warnings = logger.matching(/"late"/);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(new RegExp(`queue "q".*"${stranger.id}".*no workflow named "late".*app\\.register`));
    t.app.register(late);
    await t.clock.advance(0);
    expect(await stranger.status()).toMatchObject({ status: 'SUCCESS', output: 'ran after all' });
    await client.close();
  });

  it('for a version that no process runs causes one warning', async () => {
    const logger = recordingLogger();
    const wf = whoRan();
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q')], version: 'mine', logger });
    for (let i = 0; i < 3; i++) await wf.with({ queue: 'q', version: 'theirs' }).start();
    await t.clock.advance('1m');
    await t.clock.advance('1m');
    expect(logger.lines).toEqual([
      expect.stringMatching(/queue "q".*for version "theirs".*this process is version "mine"/),
    ]);
  });
});
