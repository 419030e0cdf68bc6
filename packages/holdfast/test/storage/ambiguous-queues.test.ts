import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { failure, overTime, tamper } from '../support/faults.js';
import { openWire } from './wire.js';

/**
 * Operations on queues that a person or a launch makes: when the connection breaks under one, the caller learns of it
 * and makes it again. Neither the break nor the repetition may do harm.
 */
describeBackends('a connection that breaks under an operation on a queue', suite, ['postgres']);

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

  it.each(kinds)('a launch under which it breaks is made again, and there is one queue as given (%s)', async (kind) => {
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

  it.each(kinds)('a pause that is made again holds, and so does its end (%s)', async (kind) => {
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

  it.each(kinds)('partitions that came with an update under which it broke strand nothing (%s)', async (kind) => {
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
    'a deletion leaves the queue whole or takes it away, and holds nobody up (%s, %s)',
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
