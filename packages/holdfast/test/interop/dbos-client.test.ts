import pg from 'pg';
import { expect, it } from 'vitest';
import { event, queue, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure } from '../support/faults.js';
import { dbosSide, often, portableValue, richValue } from './dbos.js';

describeBackends(
  'a DBOS client and a Holdfast worker',
  (backend) => {
    const dbos = dbosSide();
    const shown = event<unknown>('shown');
    const values = stream<unknown>('shown');
    const mail = topic<unknown>('mail');

    const show = workflow('show', async (value: unknown) => {
      await shown.set(value);
      await values.write(value);
      await values.write('last');
      await values.close();
      return { value, mail: await mail.receive() };
    });
    const refuse = workflow('refuse', async (message: string) => {
      throw Object.assign(new TypeError(message), { code: 'E_TEST', data: { why: [1, null] } });
    });
    const spread = workflow('spread', async (...args: unknown[]) => args);

    const plain = topic<number>();
    const collect = workflow('collect', async () => [await plain.receive(), await plain.receive()]);

    async function sides() {
      const database = await backend.newDatabase();
      const t = await backend.testApp({
        errors: { keep: ['data'] },
        database,
        workflows: [show, refuse, spread, collect],
        queues: [queue('ours')],
        clock: 'real',
      });
      return { ...t, client: await dbos.client(database), database };
    }

    it.each([
      { format: 'native', seen: richValue },
      { format: 'portable', seen: portableValue },
    ] as const)(
      'exchange values in the $format format: arguments, events, streams, messages, results',
      async (each) => {
        const { client, app } = await sides();
        const { format, seen } = each;
        const options = { queueName: 'ours', workflowName: 'show', workflowID: 'w' };
        const handle =
          format === 'portable'
            ? await client.enqueuePortable(options, [richValue])
            : await client.enqueue(options, richValue);
        expect(await client.getEvent('w', 'shown', { timeoutSeconds: 60, ...often })).toStrictEqual(seen);
        const read: unknown[] = [];
        for await (const value of client.readStream('w', 'shown', often)) read.push(value);
        expect(read).toStrictEqual([seen, 'last']);
        await client.send('w', richValue, 'mail', undefined, { serializationType: format });
        expect(await handle.getResult(often)).toStrictEqual({ value: seen, mail: seen });
        const { input, status } = (await app.workflows.get('w')) ?? {};
        expect([status, input]).toStrictEqual(['SUCCESS', [seen]]);
      },
    );

    it('pass named arguments as one object after the positional arguments', async () => {
      const { client } = await sides();
      const options = { queueName: 'ours', workflowName: 'spread' };
      const named = await client.enqueuePortable(options, [1, null], { greeting: 'hi', at: new Date(0) });
      const none = await client.enqueuePortable(options, []);
      expect(await named.getResult(often)).toEqual([1, null, { greeting: 'hi', at: '1970-01-01T00:00:00.000Z' }]);
      expect(await none.getResult(often)).toEqual([]);
    });

    it('keep undefined and null apart in the native format, and pass both as null in the portable one', async () => {
      const { client } = await sides();
      const options = { queueName: 'ours', workflowName: 'spread' };
      const native = await client.enqueue(options, undefined, null);
      const portable = await client.enqueuePortable(options, [undefined, null]);
      expect(await native.getResult(often)).toStrictEqual([undefined, null]);
      expect(await portable.getResult(often)).toStrictEqual([null, null]);
    });

    it('pass errors on with name, message, code and data', async () => {
      const { client } = await sides();
      const options = { queueName: 'ours', workflowName: 'refuse' };
      const shape = { name: 'TypeError', message: 'no', code: 'E_TEST', data: { why: [1, null] } };
      const native = await failure((await client.enqueue(options, 'no')).getResult(often));
      expect({ ...shape, ...pick(native) }).toEqual(shape);
      const portable = await failure((await client.enqueuePortable(options, ['no'])).getResult(often));
      expect(pick(portable)).toEqual(shape);
    });

    it('deliver messages without a topic in sending order, once per idempotency key', async () => {
      const { client } = await sides();
      const handle = await client.enqueue({ queueName: 'ours', workflowName: 'collect', workflowID: 'c' });
      for (const [value, key] of [
        [1, 'first'],
        [0, 'first'],
        [2, 'second'],
      ] as const) {
        await client.send('c', value, undefined, key);
      }
      expect(await handle.getResult(often)).toEqual([1, 2]);
    });

    it('keep one order of queued work and messages, whichever side enqueues and sends', async () => {
      const { client, app } = await sides();
      await app.queues.register('serial', { concurrency: 1 });
      await app.queues.pause('serial');
      const begun: number[] = [];
      const note = workflow('note', async (n: number) => void begun.push(n));
      app.register(note);
      const collector = await collect.with({ id: 'c' }).start();
      for (let n = 0; n < 6; n += 2) {
        await client.enqueue({ queueName: 'serial', workflowName: 'note', workflowID: `${n}` }, n);
        await note.with({ queue: 'serial', id: `${n + 1}` }).start(n + 1);
      }
      await client.send('c', 1);
      await plain.send('c', 2);
      await app.queues.resume('serial');
      for (let n = 0; n < 6; n++) await app.workflows.handle(`${n}`).result();
      expect(begun).toEqual([0, 1, 2, 3, 4, 5]);
      expect(await collector.result()).toEqual([1, 2]);
    });

    it("commit or roll back with the caller's transaction", async () => {
      const { client, database } = await sides();
      const session = new pg.Client(database);
      await session.connect();
      const within = async (id: string, value: number, end: 'commit' | 'rollback') => {
        await session.query('begin');
        const options = { queueName: 'ours', workflowName: 'show', workflowID: id };
        await client.enqueuePortableInTransaction(session, options, [value]);
        await client.sendInTransaction(session, id, value, 'mail');
        await session.query(end);
      };
      await within('undone', 1, 'rollback');
      await within('done', 2, 'commit').finally(() => session.end());
      expect(await client.retrieveWorkflow('done').getResult(often)).toEqual({ value: 2, mail: 2 });
      expect(await client.getWorkflow('undone')).toBeUndefined();
    });

    it('reject a second workflow with a deduplication ID that is in use', async () => {
      const { client } = await sides();
      const options = { queueName: 'ours', workflowName: 'show', deduplicationID: 'one' };
      const first = await client.enqueue({ ...options, workflowID: 'first' }, 1);
      expect(await failure(client.enqueue(options, 2))).toMatchObject({ name: 'DBOSQueueDuplicatedError' });
      const existing = await client.enqueue({ ...options, duplicationPolicy: 'return-existing' }, 3);
      expect(existing.workflowID).toBe('first');
      await client.send('first', 'go', 'mail');
      await first.getResult(often);
      const second = await client.enqueue(options, 4);
      await client.send(second.workflowID, 'go', 'mail');
      expect(await second.getResult(often)).toEqual({ value: 4, mail: 'go' });
    });

    it('show, cancel and resume workflows of Holdfast, including their steps', async () => {
      const { client, app } = await sides();
      await client.enqueue({ queueName: 'ours', workflowName: 'show', workflowID: 'w' }, 'v');
      await client.getEvent('w', 'shown', { timeoutSeconds: 60, ...often });
      await client.cancelWorkflow('w');
      expect(await failure(app.workflows.handle('w').result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
      await client.send('w', 'late', 'mail');
      await client.resumeWorkflow('w');
      expect(await app.workflows.handle('w').result()).toEqual({ value: 'v', mail: 'late' });
      expect(await client.getWorkflow('w')).toMatchObject({ status: 'SUCCESS', input: ['v'], workflowName: 'show' });
      const names = (await client.listWorkflowSteps('w'))?.map(({ name }) => name);
      expect(names?.slice(0, 5)).toEqual([
        'DBOS.setEvent',
        'DBOS.writeStream',
        'DBOS.writeStream',
        'DBOS.closeStream',
        'DBOS.recv',
      ]);
    });
  },
  ['postgres'],
);

function pick({ name, message, code, data }: Error & Record<string, unknown>) {
  return { name, message, code, data };
}
