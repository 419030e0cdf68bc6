import { DBOSClient } from '@dbos-inc/dbos-sdk';
import { expect, it, onTestFinished } from 'vitest';
import { event, queue, run, sleep, topic, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, forever, recordingLogger, tamper } from '../support/faults.js';
import { type InFlight, killedInFlight, sdks } from './dbos-in-flight.js';

const often = { pollingIntervalMs: 20 };

describeBackends(
  'unfinished work of DBOS',
  (backend) => {
    const ran: string[] = [];
    /** While `bills` is 0, the step "bill" does not end. */
    let bills = 1;
    const step = <T>(name: string, value: T): Promise<T> =>
      run(name, async () => {
        ran.push(name);
        return value;
      });
    const pack = workflow('pack', async (item: string) => step('box', `other box of ${item}`));
    const paid = event<unknown>('paid');
    const mail = topic<string>('mail');
    const order = workflow('order', async (item: string, options: unknown) => {
      const at = await run('DBOS.now', () => 1);
      const token = await run('DBOS.randomUUID', () => 'another');
      const receipt = await step('charge', { item, at: new Date(at) });
      await paid.set(receipt);
      const box = await (await pack.start(item)).result();
      await sleep('1ms');
      const message = (await mail.receive({ timeout: 0 })) ?? null;
      const shipped = await step('ship', 'shipped by us');
      await run('bill', () => (bills > 0 ? undefined : forever()));
      return { receipt, box, mail: message, shipped, options, token };
    });
    const greet = workflow('greet', async (who: string) => ({ hello: who }));
    const asTheirs = { name: 'dbos-shop', executorId: 'local', version: 'd1', clock: 'real' as const };

    const ours = (database: string, more: object = {}) => {
      ran.length = 0;
      return backend.testApp({ ...asTheirs, database, workflows: [order, pack, greet], ...more });
    };
    async function killed(options: Omit<InFlight, 'database' | 'name'>): Promise<string> {
      const database = await backend.emptyDatabase();
      await killedInFlight({ database, name: 'dbos-shop', ...options });
      return database;
    }
    async function clientOf5(database: string): Promise<DBOSClient> {
      const client = await DBOSClient.create({ systemDatabaseUrl: database, logger: silent });
      onTestFinished(() => client.destroy());
      return client;
    }
    const given = { gift: true };
    const token = expect.stringMatching(/^[\da-f]{8}-/);
    const result = {
      token,
      receipt: { item: 'tea', at: new Date(0), token },
      box: 'box of tea',
      mail: null,
      shipped: 'shipped by us',
      options: given,
    };

    for (const [release, sdk] of Object.entries(sdks)) {
      it(`is continued after its last step: the killed process used SDK ${release}`, async () => {
        const database = await killed({ sdk, start: { order: { o1: ['tea', given] } } });
        const t = await ours(database);
        expect(await t.app.workflows.handle('o1').result()).toStrictEqual(result);
        expect(ran).toEqual(['ship']);
        expect(await t.app.workflows.get('o1')).toMatchObject({ status: 'SUCCESS', input: ['tea', given] });
      });

      it(`is continued on its queue: the killed process used SDK ${release}`, async () => {
        const database = await killed({
          sdk,
          queue: 'theirs',
          start: { order: { o1: ['tea', given], o2: ['rum', given] } },
        });
        const t = await ours(database, { queues: [queue('theirs')] });
        expect(await t.app.workflows.handle('o1').result()).toStrictEqual(result);
        expect(await t.app.workflows.handle('o2').result()).toMatchObject({
          box: 'box of rum',
          shipped: 'shipped by us',
        });
        expect(ran).toEqual(['ship', 'ship']);
      });

      it(`has readable results, errors, inputs and steps: those of SDK ${release}`, async () => {
        const database = await killed({ sdk, start: { greet: { g: ['Ada'], f: ['nobody'] } } });
        const t = await ours(database);
        const { workflows } = t.app;
        expect(await workflows.handle('g').result()).toStrictEqual({ hello: 'Ada' });
        expect(await failure(workflows.handle('f').result())).toMatchObject({
          name: 'TypeError',
          message: 'nobody to greet',
        });
        const [f, g] = await workflows.list({ ids: ['f', 'g'], newestFirst: true });
        expect([f, g]).toMatchObject([
          { status: 'ERROR', input: ['nobody'], error: { message: 'nobody to greet' } },
          { status: 'SUCCESS', input: ['Ada'], output: { hello: 'Ada' } },
        ]);
        const fork = await workflows.fork('g');
        expect(await fork.result()).toStrictEqual({ hello: 'Ada' });
        expect(await workflows.get(fork.id)).toMatchObject({ input: ['Ada'] });
      });
    }

    it('is continued again after a crash of Holdfast, with the recorded work of both sides', async () => {
      const database = await killed({ sdk: sdks['5.3.0'], start: { order: { o1: ['tea', given] } } });
      bills = 0;
      const t = await ours(database);
      await expect
        .poll(() => tamper(database, "select 1 from operation_outputs where function_name = 'ship'"))
        .toHaveLength(1);
      bills = 1;
      const again = await t.restart();
      expect(await again.app.workflows.handle('o1').result()).toStrictEqual(result);
      expect(ran).toEqual(['ship']);
    });

    it('clients of 5.3.0 exchange starts, inputs, results and errors with Holdfast', async () => {
      const database = await killed({ sdk: sdks['5.3.0'], start: {} });
      const fail = workflow('fail', async (message: string) => Promise.reject(new RangeError(message)));
      const t = await ours(database, { workflows: [greet, fail], queues: [queue('ours')] });
      const client = await clientOf5(database);
      const theirs = await client.enqueue({ queueName: 'ours', workflowName: 'greet', workflowID: 't' }, 'Ada');
      expect(await theirs.getResult(often)).toStrictEqual({ hello: 'Ada' });
      expect(await t.app.workflows.get('t')).toMatchObject({ status: 'SUCCESS', input: ['Ada'] });
      await greet.with({ id: 'o', queue: 'ours' }).start('Bob');
      await fail.with({ id: 'e' }).start('no');
      expect(await client.retrieveWorkflow('o').getResult(often)).toStrictEqual({ hello: 'Bob' });
      expect(await failure(client.retrieveWorkflow('e').getResult(often))).toMatchObject({ message: 'no' });
      expect(await client.getWorkflow('o')).toMatchObject({ input: ['Bob'], output: { hello: 'Bob' } });
      await tamper(database, `select enqueue_workflow('greet', 'ours', array['"Cyd"'::json], workflow_id => 's')`);
      expect(await t.app.workflows.handle('s').result()).toEqual({ hello: 'Cyd' });
    });

    it('is deleted with its input and output, and either side can use its ID again', async () => {
      const database = await killed({ sdk: sdks['5.3.0'], start: { greet: { g: ['Ada'], old: ['Old'] } } });
      const t = await ours(database, { queues: [queue('ours')] });
      await t.app.workflows.delete('g');
      const payloads = 'select workflow_uuid as id from workflow_input union select workflow_uuid from workflow_output';
      expect(await tamper(database, payloads)).toEqual([{ id: 'old' }]);
      const client = await clientOf5(database);
      const again = await client.enqueue({ queueName: 'ours', workflowName: 'greet', workflowID: 'g' }, 'Bob');
      expect(await again.getResult(often)).toStrictEqual({ hello: 'Bob' });
    });

    it('is stalled while its input cannot be found, and can be resumed once it is found', async () => {
      const database = await killed({ sdk: sdks['5.3.0'], start: { order: { o1: ['tea', given] } } });
      await tamper(database, 'alter table workflow_input rename to kept_elsewhere');
      await tamper(database, 'create table workflow_input as table kept_elsewhere with no data');
      const logger = recordingLogger();
      const t = await ours(database, { logger });
      const handle = t.app.workflows.handle('o1');
      expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_STALLED' });
      expect(await handle.status()).toMatchObject({ status: 'STALLED' });
      expect(logger.matching(/no stored input/)).toHaveLength(1);
      await tamper(database, 'insert into workflow_input select * from kept_elsewhere');
      const client = await clientOf5(database);
      expect(await client.getWorkflow('o1')).toMatchObject({ status: 'STALLED' });
      expect(await client.listWorkflows({ status: 'STALLED' as never })).toMatchObject([{ workflowID: 'o1' }]);
      await client.cancelWorkflow('o1');
      expect(await handle.status()).toMatchObject({ status: 'CANCELLED' });
      await client.resumeWorkflow('o1');
      expect(await handle.result()).toStrictEqual(result);
      expect(ran).toEqual(['ship']);
    });
  },
  ['postgres'],
);
