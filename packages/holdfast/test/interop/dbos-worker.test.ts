import { afterEach, expect, it } from 'vitest';
import { type Client, connect, event, queue, run, stream, topic, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure } from '../support/faults.js';
import { dbosSide, often, richValue } from './dbos.js';

describeBackends(
  'a client and workflows of Holdfast, and a DBOS worker',
  (backend) => {
    const dbos = dbosSide();
    const clients: Client[] = [];
    afterEach(async () => {
      for (const client of clients.splice(0)) await client.close();
    });

    const shown = event<unknown>('shown');
    const values = stream<unknown>('shown');
    const mail = topic<unknown>('mail');

    async function sides() {
      const database = await backend.newDatabase();
      const worker = await dbos.worker(database, { queue: 'theirs' });
      const client = await connect({ database, logger: silent });
      clients.push(client);
      return { database, worker, client };
    }

    async function readAll(id: string, app?: object): Promise<unknown[]> {
      const read: unknown[] = [];
      for await (const value of values.read(id, app ? { app } : {})) read.push(value);
      return read;
    }

    it('exchange values: arguments, events, streams, messages, results', async () => {
      const { client, worker } = await sides();
      const handle = await client.start('show', { queue: 'theirs', id: 'w' }, richValue);
      expect(await shown.get('w', { app: client })).toStrictEqual(richValue);
      expect(await readAll('w', client)).toStrictEqual([richValue, 'last']);
      await mail.send('w', richValue, { app: client });
      expect(await handle.result()).toStrictEqual({ value: richValue, mail: richValue });
      expect(await client.workflows.get('w')).toMatchObject({ status: 'SUCCESS', appName: 'dbos-shop', version: 'd1' });
      expect((await client.workflows.steps('w')).map(({ name }) => name).slice(0, 5)).toEqual([
        'DBOS.setEvent',
        'DBOS.writeStream',
        'DBOS.writeStream',
        'DBOS.closeStream',
        'DBOS.recv',
      ]);
      expect(worker.complaints).toEqual([]);
    });

    it('send in the portable format if the topic says so', async () => {
      const { client } = await sides();
      const handle = await client.start<{ mail: unknown }>('show', { queue: 'theirs', id: 'w' }, 1);
      await topic('mail', { serialization: 'portable' }).send('w', { at: new Date(0), none: null }, { app: client });
      expect((await handle.result()).mail).toEqual({ at: '1970-01-01T00:00:00.000Z', none: null });
    });

    it('pass errors on with name, message, code and data', async () => {
      const { client } = await sides();
      const handle = await client.start('fail', { queue: 'theirs' }, 'no');
      const error = await failure(handle.result());
      expect(error).toBeInstanceOf(TypeError);
      expect(error).toMatchObject({ name: 'TypeError', message: 'no', code: 'E_TEST', data: { why: [1, null] } });
    });

    it('cancel a workflow of DBOS', async () => {
      const { client, worker, database } = await sides();
      const handle = await client.start('show', { queue: 'theirs', id: 'w' }, 1);
      await worker.looked('w::mail');
      await handle.cancel();
      expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
      const theirClient = await dbos.client(database);
      expect(await theirClient.getWorkflow('w')).toMatchObject({ status: 'CANCELLED' });
    });

    it('let a Holdfast workflow use a DBOS workflow, exactly once even if it is replayed', async () => {
      const { database, worker } = await sides();
      const call = workflow('call', async (id: string) => {
        const event = await shown.get(id);
        const read = await readAll(id);
        await mail.send(id, richValue);
        await run('pause here', () => t.signals.emit('sent'));
        const answer = await topic<unknown>('answer').receive();
        return { event, read, answer };
      });
      const t = await backend.testApp({ database, workflows: [call], queues: [queue('ours')], clock: 'real' });
      const client = clients.at(-1) as Client;
      const theirs = await client.start('show', { queue: 'theirs', id: 'w' }, richValue);
      const ours = await call.with({ id: 'c' }).start('w');
      await t.signals.wait('sent');
      const again = await t.restart();
      expect(await theirs.result()).toStrictEqual({ value: richValue, mail: richValue });
      await topic('answer').send('c', 'thanks', { app: client });
      const result = again.app.workflows.handle(ours.id).result();
      expect(await result).toStrictEqual({ event: richValue, read: [richValue, 'last'], answer: 'thanks' });
      expect(await client.workflows.messages('w')).toHaveLength(1);
      expect(worker.complaints).toEqual([]);
    });

    it('let a DBOS workflow use a Holdfast workflow', async () => {
      const { database, worker, client } = await sides();
      const show = workflow('show ours', async (value: unknown) => {
        await shown.set(value);
        await values.write(value);
        await values.close();
        return { value, mail: await mail.receive() };
      });
      await backend.testApp({ database, workflows: [show], clock: 'real' });
      await show.with({ id: 'ours' }).start(richValue);
      await worker.visit('theirs', 'ours', [1, 'two']);
      const result = { value: richValue, mail: [1, 'two'] };
      expect(await client.workflows.handle('theirs').result()).toStrictEqual({
        event: richValue,
        stream: [richValue],
        result,
      });
      const dbosClient = await dbos.client(database);
      expect(await dbosClient.retrieveWorkflow('ours').getResult(often)).toStrictEqual(result);
      expect(worker.complaints).toEqual([]);
    });

    it('run no work that belongs to the other side', async () => {
      const { database, worker, client: unnamed } = await sides();
      const named = await connect({ database, name: 'test', logger: silent });
      clients.push(named);
      const ours = await named.start('mine', {});
      // Any app may run this workflow, and it is queued behind the first. When DBOS has run it, DBOS has skipped the
      // first.
      const theirs = await unnamed.start('fail', {}, 'no');
      expect(await failure(theirs.result())).toMatchObject({ code: 'E_TEST' });
      expect(await ours.status()).toMatchObject({ status: 'ENQUEUED' });

      const mine = workflow('mine', async () => 'ours');
      await backend.testApp({ database, workflows: [mine], queues: [queue('ours')], clock: 'real' });
      const queued = await unnamed.start('mine', { queue: 'ours' });
      expect([await ours.result(), await queued.result()]).toEqual(['ours', 'ours']);
      expect(worker.complaints).toEqual(['error: no']);
    });
  },
  ['postgres'],
);
