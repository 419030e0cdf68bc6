import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { recordingLogger, tamper } from '../support/faults.js';

describeBackends('work on a queue that does not exist', (backend) => {
  const greet = workflow('greet', async () => 'hello');
  /** Enqueues a workflow as an SQL client or DBOS does. */
  const put = (database: string, id: string, queueName: string, app: string | null = null) =>
    tamper(
      database,
      'insert into workflow_status (workflow_uuid, name, queue_name, application_name, status, inputs, created_at, serialization) ' +
        `values ('${id}', 'greet', '${queueName}', ${app === null ? 'null' : `'${app}'`}, 'ENQUEUED', ` +
        `'{"positionalArgs":[]}', 1, 'portable_json')`,
    );

  it('causes one warning, soon after launch or within a minute, and runs when the queue is registered', async () => {
    const database = await backend.newDatabase();
    await put(database, 'w1', 'oders');
    const logger = recordingLogger();
    const orders = queue('orders');
    const t = await backend.testApp({ database, workflows: [greet], queues: [orders], logger });
    const warned = () => logger.matching(/there is no such queue/);
    await t.clock.advance('10s');
    expect(warned()).toEqual([
      expect.stringMatching(/Work waits on queue "oders", for instance workflow "w1".*Did you mean "orders"/),
    ]);
    await put(database, 'w2', 'invoices');
    await put(database, 'w3', 'orders');
    expect(await t.clock.runUntil(t.app.workflows.handle('w3').result())).toBe('hello');
    await t.clock.advance('10m');
    expect(warned()).toHaveLength(2);
    expect(warned()[1]).toMatch(/queue "invoices", for instance workflow "w2"/);
    await t.app.queues.register(queue('oders'));
    expect(await t.clock.runUntil(t.app.workflows.handle('w1').result())).toBe('hello');
    await t.app.workflows.cancel('w2');
    await t.app.workflows.resume('w2', { queue: 'orders' });
    expect(await t.clock.runUntil(t.app.workflows.handle('w2').result())).toBe('hello');
  });

  it('is left to the app that owns it', async () => {
    const database = await backend.newDatabase();
    await put(database, 'w', 'theirs', 'another');
    const logger = recordingLogger();
    const t = await backend.testApp({ database, name: 'shop', workflows: [greet], queues: [queue('orders')], logger });
    await t.clock.advance('2m');
    expect(logger.lines).toEqual([]);
  });
});
