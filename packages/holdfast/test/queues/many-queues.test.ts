import { expect, it } from 'vitest';
import { queue, run, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';

const queues = Array.from({ length: 1_000 }, (_, i) => queue(`queue ${i}`));

describeBackends('an app with a thousand queues', (backend) => {
  const open = async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async (name: string) => {
      await run('note', () => void ran.push(name));
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], queues });
    /** Enqueues the workflow without a notification, as DBOS or a restore would. */
    const putOn = async (queueName: string) => {
      await tamper(
        database,
        `update workflow_status set status = 'ENQUEUED', queue_name = '${queueName}', owner_xid = null, output = null, ` +
          `completed_at = null where workflow_uuid = 'w'`,
      );
      await tamper(database, "delete from operation_outputs where workflow_uuid = 'w'");
    };
    await wf.with({ id: 'w' })('work');
    const passes = async (seconds: number): Promise<string[]> => {
      const before = t.statements.length;
      for (let i = 0; i < seconds * 10; i++) await t.clock.advance(100);
      return t.statements.slice(before);
    };
    return { t, database, ran, wf, putOn, passes };
  };

  it('rarely reads their settings, and still finds work on any of them quickly', async () => {
    const { ran, putOn, passes } = await open();
    const made = await passes(60);
    expect(made.filter((name) => name === 'queues.overview').length).toBeLessThanOrEqual(4);
    expect(made.filter((name) => name === 'queues.busy').length).toBeGreaterThanOrEqual(20);
    await putOn('queue 700');
    await passes(3);
    expect(ran).toEqual(['work', 'work']);
  });

  it('finds a queue with work on it that was never announced', async () => {
    const { database, ran, putOn, passes } = await open();
    const others =
      'application_name, priority_enabled, partition_queue, paused, partitioned, turn, created_at, updated_at';
    await tamper(
      database,
      `insert into queues (queue_id, name, ${others}) select 'other', 'other', ${others} from queues where name = 'queue 1'`,
    );
    await putOn('other');
    await passes(15);
    expect(ran).toEqual(['work', 'work']);
  });

  it('reads their settings as soon as another process has changed one', async () => {
    const { t, database, wf, ran, passes } = await open();
    const other = await backend.testApp({ database, workflows: [wf], listen: [], executorId: 'other', clock: t.clock });
    await passes(4);
    await other.app.queues.register(queue('new'));
    await t.clock.runUntil(wf.with({ queue: 'new', app: other.app })('new work'));
    expect(ran).toEqual(['work', 'new work']);
  });

  it('takes work from a queue that was changed or resumed, even if the notification was lost', async () => {
    const { t, database, ran, putOn, passes } = await open();
    await t.app.queues.pause('queue 600');
    await passes(4);
    await tamper(database, "update queues set turn = turn + 1, worker_concurrency = 5 where name = 'queue 700'");
    await tamper(database, "update queues set turn = turn + 1, paused = false where name = 'queue 600'");
    await putOn('queue 700');
    await passes(5);
    expect(ran).toEqual(['work', 'work']);
    await putOn('queue 600');
    await passes(5);
    expect(ran).toEqual(['work', 'work', 'work']);
  });
});
