import { expect, it, onTestFinished } from 'vitest';
import { type App, type LaunchOptions, launch, queue, run, workflow } from '../../src/index.js';
import { connectTo } from '../storage/migrations-support.js';
import { describeBackends, silent } from '../support/backends.js';
import { startOwnPostgres } from './own-postgres.js';

/**
 * Postgres makes a MultiXact when two transactions hold a lock on one row at the same time. There are 2^32 MultiXacts,
 * and 2^32 members. A fleet that makes thousands each second forces vacuums of its tables within hours for that reason
 * alone. The server counts MultiXacts for all its databases, so this test has its own server. Its commits take 5 ms,
 * as on a cloud disk, and hold their locks for that long.
 */
describeBackends('200 workflows of 12 apps that all enqueue and claim', suite, ['postgres']);

const apps = 12;
const slowCommits = { fsync: 'on', commit_delay: 5_000, commit_siblings: 0, max_connections: 300 };

function suite(): void {
  const work = workflow('work', (n: number) => run('work', () => n));

  it('make no MultiXact, with or without a fleet-wide limit', async () => {
    const queues = [queue('free'), queue('limited', { concurrency: 100 })];
    const fleet = await launchFleet({ workflows: [work], queues });
    for (const each of queues) {
      const start = (n: number) => work.with({ queue: each, app: fleet.apps[n % apps] as App }).start(n);
      const before = await fleet.multiXacts();
      // One after the other, so that all idle apps try to claim each workflow. Then many at once.
      for (let n = 0; n < 100; n++) expect(await (await start(n)).result()).toBe(n);
      const handles = await Promise.all(Array.from({ length: 100 }, (_, n) => start(n)));
      for (const [n, handle] of handles.entries()) expect(await handle.result()).toBe(n);
      expect(await fleet.multiXacts(), each.name).toEqual(before);
    }
  });
}

async function launchFleet(options: Pick<LaunchOptions, 'workflows' | 'queues'>) {
  const server = await startOwnPostgres(slowCommits);
  onTestFinished(() => server.stop());
  const client = await connectTo(server.url);
  const launched: App[] = [];
  onTestFinished(async () => void (await Promise.all(launched.map((app) => app.shutdown()))));
  for (let i = 0; i < apps; i++) {
    launched.push(await launch({ name: 'fleet', database: server.url, logger: silent, ...options }));
  }
  return {
    apps: launched,
    /** The next MultiXact ID and the next member offset. A checkpoint writes both to the control file. */
    multiXacts: async () => {
      await client.query('checkpoint');
      const next =
        'select next_multixact_id::text as id, next_multi_offset::text as members from pg_control_checkpoint()';
      return (await client.query(next)).rows;
    },
  };
}
