import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { failure, overTime, tamper } from '../support/faults.js';
import { openWire } from './wire.js';

/**
 * Operations on queues by a person or a launch. When the connection breaks during one, the caller gets an error and
 * repeats the operation. Neither the break nor the repetition may do harm.
 */
describeBackends('a connection that breaks during an operation on a queue', suite, ['postgres']);

const kinds = ['cut-before', 'cut-after'] as const;

function suite(backend: Backend): void {
  const work = workflow('work', async () => 'done');
  const jobs = queue('jobs', { concurrency: 2 });
  const launch = async () => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const t = await backend.testApp({ database: wire.url, workflows: [work], queues: [jobs] });
    return { database, wire, t };
  };

  it.each(kinds)('lets the launch be repeated, which leaves one queue with its settings (%s)', async (kind) => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const options = {
      database: wire.url,
      workflows: [work],
      queues: [queue('jobs', { partition: { concurrency: 1 } })],
    };
    const happened = wire.inject({ statement: 'queues.register', kind });
    const first = await backend.testApp(options).catch((error: Error) => error);
    await happened;
    const t = first instanceof Error ? await backend.testApp(options) : first;
    expect(await t.app.queues.list()).toMatchObject([{ name: 'jobs', partition: { concurrency: 1 }, paused: false }]);
    const handle = await work.with({ queue: 'jobs', partition: 'a' }).start();
    expect(await overTime(t.clock, handle.result())).toBe('done');
  });

  it.each(kinds)('lets a pause and a resume be repeated, and both take effect (%s)', async (kind) => {
    const { wire, t } = await launch();
    for (const operation of ['pause', 'resume'] as const) {
      const happened = wire.inject({ statement: 'queues.change', kind });
      await t.app.queues[operation]('jobs').catch(() => {});
      await happened;
      expect(await t.app.queues[operation]('jobs')).toMatchObject({ paused: operation === 'pause', concurrency: 2 });
      const handle = await work.with({ queue: jobs }).start();
      await t.clock.advance('5s');
      expect(await handle.status()).toMatchObject({ status: operation === 'pause' ? 'ENQUEUED' : 'SUCCESS' });
    }
    await t.clock.advance('5s');
    expect(await t.app.workflows.list({ status: ['ENQUEUED', 'PENDING'] })).toEqual([]);
  });

  it.each(kinds)('strands no work on a queue that gets partitions by an interrupted update (%s)', async (kind) => {
    const { wire, t } = await launch();
    await t.app.queues.pause('jobs');
    const handle = await work.with({ queue: jobs }).start();
    const update = () => t.app.queues.update('jobs', { partition: { concurrency: 1 } });
    for (const statement of ['queues.change', 'queues.giveKeys']) {
      const happened = wire.inject({ statement, kind });
      await update().catch(() => {});
      if (statement === 'queues.change') await happened;
    }
    await update();
    await t.app.queues.resume('jobs');
    expect(await overTime(t.clock, handle.result(), 60)).toBe('done');
  });

  it.each([
    ...kinds.map((kind) => ['queues.remove', kind] as const),
    ['commit', 'cut-before'],
    ['commit', 'cut-after'],
  ] as const)(
    'leaves the queue whole or deletes it completely, and does not block others (%s, %s)',
    async (statement, kind) => {
      const { wire, t, database } = await launch();
      const happened = wire.inject({ statement, kind });
      await t.app.queues.delete('jobs').catch(() => {});
      await happened;
      const gone = statement === 'commit' && kind === 'cut-after';
      expect(await tamper(database, 'select name from queues')).toHaveLength(gone ? 0 : 1);
      if (gone) expect(await failure(t.app.queues.delete('jobs'))).toMatchObject({ code: 'UNKNOWN_QUEUE' });
      else await t.app.queues.delete('jobs');
      expect(await failure(work.with({ queue: jobs }).start())).toMatchObject({ code: 'UNKNOWN_QUEUE' });
    },
  );
}
