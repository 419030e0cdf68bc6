import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';

describeBackends('the tables in which DBOS 5 keeps inputs and outputs', (backend) => {
  const greet = workflow('greet', async (who: string) => ({ hello: who }));
  const start = async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [greet], queues: [queue('ours')], clock: 'real' });
    return { database, t };
  };
  const input = (id: string, who: string) =>
    `insert into workflow_input (workflow_uuid, inputs) values ('${id}', '{"positionalArgs":["${who}"]}')`;
  const row = (id: string, status: string) =>
    'insert into workflow_status (workflow_uuid, name, queue_name, status, created_at, completed_at, serialization) ' +
    `values ('${id}', 'greet', 'ours', '${status}', 1, 2, 'portable_json')`;
  const left = async (database: string) =>
    tamper(database, 'select workflow_uuid as id from workflow_input union select workflow_uuid from workflow_output');

  it('supply missing inputs and outputs when a workflow runs, is forked, or is listed', async () => {
    const { database, t } = await start();
    await tamper(database, input('w', 'Ada'));
    await tamper(database, row('w', 'ENQUEUED'));
    expect(await t.app.workflows.handle('w').result()).toEqual({ hello: 'Ada' });
    expect(await t.app.workflows.get('w')).toMatchObject({ input: ['Ada'] });
    const fork = await t.app.workflows.fork('w');
    await tamper(database, "update workflow_input set inputs = 'not of the fork'");
    expect(await fork.result()).toEqual({ hello: 'Ada' });
    await tamper(database, row('done', 'SUCCESS'));
    await tamper(database, input('done', 'Bob'));
    await tamper(database, `insert into workflow_output (workflow_uuid, output) values ('done', '"bye"')`);
    expect(await t.app.workflows.handle('done').result()).toBe('bye');
    expect(await t.app.workflows.list({ ids: ['done'] })).toMatchObject([{ input: ['Bob'], output: 'bye' }]);
  });

  it('are ignored if the workflow row has its own value, even if a late start of DBOS adds arguments', async () => {
    const { database, t } = await start();
    await tamper(database, input('w', 'Late'));
    await tamper(database, `insert into workflow_output (workflow_uuid, error) values ('w', '{"message":"late"}')`);
    expect(
      await greet
        .with({ id: 'w', queue: 'ours' })
        .start('First')
        .then((handle) => handle.result()),
    ).toEqual({
      hello: 'First',
    });
    expect(await t.app.workflows.get('w')).toMatchObject({ input: ['First'], output: { hello: 'First' } });
    expect((await t.app.workflows.get('w'))?.error).toBeUndefined();
  });

  it('lose their rows together with the workflow, on deletion and on retention', async () => {
    const { database, t } = await start();
    for (const id of ['w', 'v', 'kept']) {
      await tamper(database, input(id, id));
      await tamper(database, `insert into workflow_output (workflow_uuid, output) values ('${id}', '1')`);
      await tamper(database, row(id, 'SUCCESS'));
    }
    await t.app.workflows.delete('w');
    expect(await left(database)).toEqual(expect.arrayContaining([{ id: 'v' }, { id: 'kept' }]));
    expect(await left(database)).toHaveLength(2);
    await tamper(database, `update workflow_status set completed_at = 1 where workflow_uuid = 'v'`);
    await tamper(database, `update workflow_status set completed_at = ${Date.now()} where workflow_uuid = 'kept'`);
    await backend.testApp({ database, name: 'sweeper', retention: { after: '1h', every: '1s' }, clock: 'real' });
    await expect.poll(() => left(database), { timeout: 20_000 }).toEqual([{ id: 'kept' }]);
  });
});
