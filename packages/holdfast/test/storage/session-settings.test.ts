import { expect, it, onTestFinished } from 'vitest';
import { launch, queue, run, workflow } from '../../src/index.js';
import { openPostgres } from '../../src/storage/postgres/database.js';
import { describeBackends, silent } from '../support/backends.js';
import { recordingLogger, tamper } from '../support/faults.js';

describeBackends(
  'the settings of a session',
  (backend) => {
    it('switch JIT compilation off on every connection of the pools', async () => {
      const options = { schema: 'dbos', migrate: false, logger: silent, applicationName: 'test' };
      const database = await openPostgres({ url: await backend.newDatabase(), ...options });
      onTestFinished(() => database.close());
      const general = { name: 'test.general', text: 'show jit' };
      const pinned = { name: 'test.pinned', text: 'show jit', pinned: true as const };
      const answers = [
        await database.query(general, []),
        await database.query(pinned, []),
        await database.impatient?.query(pinned, []),
      ];
      expect(answers).toEqual(answers.map(() => [{ jit: 'off' }]));
    });

    it('let claims and edits of a queue wait for each other under any default isolation level', async () => {
      const url = await backend.newDatabase();
      const name = new URL(url).pathname.slice(1);
      await tamper(url, `alter database ${name} set default_transaction_isolation = 'serializable'`);
      const logger = recordingLogger();
      const jobs = queue('jobs', { concurrency: 3 });
      const work = workflow('work', async () => run('step', () => {}));
      const options = { name: 'test', version: 'v1', database: url, workflows: [work], queues: [jobs], logger };
      const apps = [
        await launch({ ...options, executorId: 'a' }),
        await launch({ ...options, executorId: 'b' }),
      ] as const;
      for (const app of apps) onTestFinished(() => app.shutdown());
      const handles = await work.with({ queue: jobs, app: apps[0] }).startAll(Array.from({ length: 60 }, () => []));
      for (let i = 0; i < 5; i++) {
        await apps[1].queues.pause('jobs');
        await apps[0].queues.resume('jobs');
      }
      for (const handle of handles) await handle.result();
      expect(logger.matching(/could not serialize/)).toEqual([]);
    });
  },
  ['postgres'],
);
