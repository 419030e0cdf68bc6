import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { run, sleep, workflow } from '../../src/index.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { SqlWorkflows } from '../../src/storage/sql/workflows.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { recordingLogger } from '../support/faults.js';

describeBackends('statements that lock many workflows', suite, ['postgres']);

function suite(backend: Backend): void {
  it('do not deadlock: a tree under load is cancelled at once, and no checkpoint fails', async () => {
    const logger = recordingLogger();
    let steps = 0;
    let enough = (): void => {};
    const child = workflow('child', async () => {
      for (;;) {
        // The workflows are out of step, so that batches lock them in changing orders.
        await run('work', () => new Promise((resolve) => setTimeout(resolve, Math.random() * 5)));
        if (++steps % 3000 === 0) enough();
      }
    });
    const parent = workflow('parent', async () => {
      for (let n = 0; n < 150; n++) void child.start();
      await sleep('1d');
    });
    const t = await backend.testApp({ logger, workflows: [child, parent] });
    for (let round = 0; round < 3; round++) {
      const busy = new Promise<void>((resolve) => {
        enough = resolve;
      });
      const parents = await Promise.all([parent.start(), parent.start(), parent.start()]);
      await busy;
      await Promise.all(parents.map((each) => each.cancel()));
      expect(await t.app.workflows.list({ status: 'PENDING' })).toEqual([]);
    }
    expect(logger.matching(/deadlock/)).toEqual([]);
  });

  it('cancel a workflow by reading only its own children, however many children others have', async () => {
    const client = new pg.Client(await backend.newDatabase());
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(`insert into dbos.workflow_status (workflow_uuid, status, name, parent_workflow_id)
      select 'w' || i, 'SUCCESS', 'wf', case when i > 20 then 'w' || i % 20 end from generate_series(0, 20000) i`);
    await client.query('analyze dbos.workflow_status');
    const plan = await client.query(`explain (format json) ${await cancelStatement()}`, [['w1'], null, 1]);
    expect(JSON.stringify(plan.rows)).not.toMatch(/Hash Join|Seq Scan on workflow_status/);
  });
}

/** Reads the text of the statement from the code that sends it. */
async function cancelStatement(): Promise<string> {
  let text = '';
  const query = async (statement: { text: string }): Promise<[]> => {
    text = statement.text;
    return [];
  };
  const workflows = new SqlWorkflows({ dialect: postgresDialect('dbos'), query } as never);
  await workflows.cancel({ workflowIds: [], reason: null, now: 0 });
  return text;
}
