import { expect, it } from 'vitest';
import { event, queue, run, stream, topic, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { dbosSide, often } from './dbos.js';

/**
 * No wait in these tests can end by polling: Holdfast's clock is stopped, and the waits of DBOS poll once an hour.
 * Each test makes sure that the wait has found nothing before the awaited data exists.
 */
describeBackends(
  'a notification from the other side ends a wait',
  (backend) => {
    const dbos = dbosSide();
    const mail = topic<unknown>('mail');
    const shown = event<unknown>('shown');
    const values = stream<unknown>('shown');

    const looks = ({ statements }: TestApp, name: string) => statements.filter((each) => each === name).length;

    it('when a Holdfast workflow waits for a message, and a DBOS client or workflow sends it', async () => {
      const wait = workflow('wait', async () => mail.receive());
      const database = await backend.newDatabase();
      const t = await backend.testApp({ database, workflows: [wait] });
      const worker = await dbos.worker(database);
      const client = await dbos.client(database);
      const sends = {
        client: () => client.send('client', 'from client', 'mail'),
        workflow: () => worker.visit('visit', 'workflow', 'from workflow'),
      };
      for (const [id, send] of Object.entries(sends)) {
        const before = looks(t, 'messages.waiting');
        const handle = await wait.with({ id }).start();
        // One query at first, and another when the listener is notified of messages to this workflow.
        await expect.poll(() => looks(t, 'messages.waiting')).toBe(before + 2);
        await send();
        expect(await handle.result()).toBe(`from ${id}`);
      }
    });

    it('when Holdfast waits for an event and a stream of a DBOS workflow', async () => {
      const database = await backend.newDatabase();
      const t = await backend.testApp({ database });
      const worker = await dbos.worker(database, { queue: 'theirs' });
      const client = await dbos.client(database);
      await client.enqueue({ queueName: 'theirs', workflowName: 'showLater', workflowID: 'w' }, 'value');
      await worker.looked('w::mail');
      const event = shown.get('w');
      const value = values.read('w').next();
      await expect.poll(() => [looks(t, 'events.read'), looks(t, 'streams.read')]).toEqual([2, 2]);
      await client.send('w', 'go', 'mail');
      expect(await event).toBe('value');
      expect(await value).toEqual({ done: false, value: 'value' });
    });

    it('when a DBOS workflow waits for a message, and a Holdfast client or workflow sends it', async () => {
      const send = workflow('send', async (to: string) => mail.send(to, 'from a workflow'));
      const database = await backend.newDatabase();
      await backend.testApp({ database, workflows: [send] });
      const worker = await dbos.worker(database, { queue: 'theirs' });
      const client = await dbos.client(database);
      for (const id of ['a', 'b']) {
        const handle = await client.enqueue({ queueName: 'theirs', workflowName: 'show', workflowID: id }, 1);
        await worker.looked(`${id}::mail`);
        if (id === 'a') await mail.send(id, 'from outside');
        else await send(id);
        const from = id === 'a' ? 'from outside' : 'from a workflow';
        expect(await handle.getResult(often)).toEqual({ value: 1, mail: from });
      }
    });

    it('when a DBOS workflow waits for an event that a Holdfast workflow or one of its steps sets', async () => {
      const show = workflow('show', async (how: string) => {
        await mail.receive();
        if (how === 'in a step') await run('set', () => shown.set(how));
        else await shown.set(how);
      });
      const database = await backend.newDatabase();
      await backend.testApp({ database, workflows: [show], queues: [queue('ours')] });
      const worker = await dbos.worker(database, { queue: 'theirs' });
      const client = await dbos.client(database);
      for (const how of ['by the workflow', 'in a step']) {
        await show.with({ id: how }).start(how);
        const handle = await client.enqueue({ queueName: 'theirs', workflowName: 'awaitEvent' }, how, 'shown');
        await worker.looked(`${how}::shown`);
        await mail.send(how, 'go');
        expect(await handle.getResult(often)).toBe(how);
      }
    });

    it('when a DBOS workflow reads a stream of Holdfast', async () => {
      const write = workflow('write', async () => {
        await mail.receive();
        await values.write(1);
        await mail.receive();
        await run('write', () => values.write(2));
        await mail.receive();
        await values.close();
        await mail.receive();
      });
      const database = await backend.newDatabase();
      await backend.testApp({ database, workflows: [write] });
      const worker = await dbos.worker(database, { queue: 'theirs' });
      const client = await dbos.client(database);
      await write.with({ id: 'w' }).start();
      const handle = await client.enqueue({ queueName: 'theirs', workflowName: 'readAll' }, 'w', 'shown');
      for (const offset of [0, 1, 2]) {
        await worker.looked(`w::shown::${offset}`);
        await mail.send('w', 'go on');
      }
      expect(await handle.getResult(often)).toEqual([1, 2]);
    });
  },
  ['postgres'],
);
