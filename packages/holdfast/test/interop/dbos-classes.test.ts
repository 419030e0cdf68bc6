import pg from 'pg';
import { expect, it } from 'vitest';
import { ConfiguredInstance, invoke, step, workflow } from '../../src/classes/index.js';
import { queue } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { dbosSide, often } from './dbos.js';

/** A DBOS user's class, rewritten with the decorators of Holdfast. */
function newShop() {
  class Shop extends ConfiguredInstance {
    @workflow()
    async checkout(amount: number): Promise<string> {
      return `${await this.charge(amount)} in ${this.configName}`;
    }

    @workflow()
    static async sweep(at: unknown): Promise<string> {
      return `swept ${typeof at}`;
    }

    @step()
    async charge(amount: number): Promise<string> {
      return `${amount} charged by us`;
    }
  }
  return Shop;
}

describeBackends(
  'classes of DBOS',
  (backend) => {
    const dbos = dbosSide();

    it('methods that a DBOS client enqueues run on the named instance', async () => {
      const Shop = newShop();
      new Shop('eu');
      const database = await backend.newDatabase();
      const { app } = await backend.testApp({ database, workflows: [Shop], queues: [queue('q')], clock: 'real' });
      const client = await dbos.client(database);
      const common = { queueName: 'q', workflowClassName: 'Shop' };
      const method = { ...common, workflowName: 'checkout', workflowConfigName: 'eu', workflowID: 'm' };
      expect(await (await client.enqueue(method, 7)).getResult(often)).toBe('7 charged by us in eu');
      const still = await client.enqueue({ ...common, workflowName: 'sweep' }, 7);
      expect(await still.getResult(often)).toBe('swept number');
      expect(await app.workflows.get('m')).toMatchObject({ className: 'Shop', configName: 'eu', status: 'SUCCESS' });
    });

    it('a DBOS client sees class, instance and roles of workflows that Holdfast ran', async () => {
      const Shop = newShop();
      const shop = new Shop('eu');
      const database = await backend.newDatabase();
      await backend.testApp({ database, workflows: [Shop], clock: 'real' });
      await invoke(shop).checkout.with({ id: 'w', user: 'ada', roles: ['clerk'] })(7);
      const client = await dbos.client(database);
      expect(await client.getWorkflow('w')).toMatchObject({
        ...{ workflowName: 'checkout', workflowClassName: 'Shop', workflowConfigName: 'eu' },
        ...{ authenticatedUser: 'ada', authenticatedRoles: ['clerk'] },
      });
    });

    it('a method that DBOS has begun continues here after its recorded steps', async () => {
      const Shop = newShop();
      new Shop('eu');
      const database = await backend.newDatabase();
      await tamper(
        database,
        `insert into workflow_status (workflow_uuid, status, name, class_name, config_name, inputs, executor_id,
           application_version, created_at, updated_at, recovery_attempts, authenticated_roles, serialization)
         values ('w', 'PENDING', 'checkout', 'Shop', 'eu', '{"json":[7],"__dbos_serializer":"superjson"}', 'local', 'v',
           1, 1, 1, '[]', 'js_superjson')`,
      );
      await tamper(
        database,
        `insert into operation_outputs (workflow_uuid, function_id, function_name, output, serialization, completed_at_epoch_ms)
         values ('w', 0, 'charge', '{"json":"7 charged by DBOS","__dbos_serializer":"superjson"}', 'js_superjson', 2)`,
      );
      const { app } = await backend.testApp({ database, workflows: [Shop], version: 'v', executorId: 'local' });
      expect(await app.workflows.handle('w').result()).toBe('7 charged by DBOS in eu');
    });

    it("a static method's schedule that DBOS has stored runs here", async () => {
      const Shop = newShop();
      const database = await backend.newDatabase();
      const client = new pg.Client(database);
      await client.connect();
      await client.query(
        `insert into dbos.workflow_schedules (schedule_id, schedule_name, workflow_name, workflow_class_name, schedule, context)
         values ('s', 's', 'sweep', 'Shop', '* * * * *', '{"json":null,"__dbos_serializer":"superjson"}')`,
      );
      await client.end();
      const t = await backend.testApp({ database, workflows: [Shop] });
      await t.clock.advance('2m');
      const runs = await t.app.workflows.list({ schedule: 's' });
      expect(runs.length).toBeGreaterThan(0);
      for (const run of runs) expect(run).toMatchObject({ className: 'Shop', output: 'swept object' });
    });
  },
  ['postgres'],
);
