import { expect, it } from 'vitest';
import { run, transaction, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, forever, gate, tamper } from '../support/faults.js';
import { counter, openUserData } from '../support/user-data.js';

/** A process that dies between the user's commit and the checkpoint leaves a record that another process reads. */
describeBackends('the record of a transaction', (backend) => {
  /** Runs a workflow with a transaction, kills it in its second step, and deletes the checkpoint of the transaction. */
  async function killed() {
    const data = await openUserData(backend, plainest[backend.name]);
    const add = transaction(data.datasource, 'add', (tx) => data.add(tx, 'a', 1).then(() => ({ x: 1 })));
    const [reached, holds] = [gate(), { on: true }];
    const wf = workflow('wf', async () => {
      const added = await add();
      await run('hold', () => {
        reached.open();
        return holds.on ? forever() : 'held';
      });
      return added;
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], version: '1' });
    await wf.with({ id: 'w' }).start();
    await reached.promise;
    holds.on = false;
    await t.crash();
    await tamper(database, "delete from operation_outputs where workflow_uuid = 'w' and function_id = 0");
    return { t, wf, data };
  }

  it('is read in the format in which it was written, even if the app uses another format now', async () => {
    const { t, wf } = await killed();
    const serializer = { name: 'plain', stringify: JSON.stringify, parse: JSON.parse };
    const again = await t.restart({ workflows: [wf], version: '1', serializer });
    expect(await again.clock.runUntil(again.app.workflows.handle('w').result())).toEqual({ x: 1 });
  });

  it('stalls the workflow if it cannot be read, and the function does not run again', async () => {
    const { t, wf, data } = await killed();
    const table = backend.name === 'postgres' ? 'dbos.transaction_completion' : 'transaction_completion';
    await tamper(data.url, `update ${table} set output = 'not readable'`);
    const again = await t.restart({ workflows: [wf], version: '1' });
    const error = await failure(again.clock.runUntil(again.app.workflows.handle('w').result()));
    expect(error).toMatchObject({ code: 'WORKFLOW_STALLED', message: /record of transaction "add" cannot be read/ });
    expect(await counter(data.url, 'a')).toBe(1);
  });
});
