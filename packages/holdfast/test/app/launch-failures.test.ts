import { expect, it } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { WorkListener } from '../../src/engine/wait/news.js';
import { queue, run, workflow } from '../../src/index.js';
import { VirtualClock } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, gate, tamper } from '../support/faults.js';

/** On SQLite, notifications of other processes only wake the polls, which do not run during a launch. */
describeBackends(
  'a launch',
  (backend) => {
    it('claims nothing before its recovery, so that nothing runs if the launch fails', async () => {
      const orders = queue('orders');
      let steps = 0;
      const wf = workflow('wf', () => run('step', () => void steps++));
      const database = await backend.newDatabase();
      const sender = await backend.testApp({ database, workflows: [wf], queues: [orders], listen: [] });
      const notified = gate();
      const launching = launchWith(
        { name: 'test', logger: silent, workflows: [wf], queues: [orders], database },
        {
          clock: new VirtualClock(),
          onStart: ({ storage, news }) => {
            const { worker } = news as unknown as { worker: WorkListener };
            const called = worker.called.bind(worker);
            worker.called = (call) => {
              called(call);
              notified.open();
            };
            storage.takeovers.otherVersions = async () => {
              await wf.with({ app: sender.app, queue: orders }).start();
              await notified.promise;
              // A claim and a step would need fewer statements than this.
              for (let i = 0; i < 20; i++) await storage.workflows.get(['unknown']);
              throw new Error('no answer');
            };
          },
        },
      );
      expect(await failure(launching)).toMatchObject({ message: 'no answer' });
      await sender.clock.advance(0);
      expect(steps).toBe(0);
      expect(await tamper(database, 'select status from workflow_status')).toEqual([{ status: 'ENQUEUED' }]);
    });
  },
  ['postgres'],
);
