import { expect, it } from 'vitest';
import { run, workflow } from '../../src/index.js';
import { report } from '../faults/child-process.js';
import { describeBackends } from '../support/backends.js';
import { forever, gate, tamper } from '../support/faults.js';

const many = 100_000;
const maxAtOnce = 1_000;

describeBackends('the recovery of 100,000 workflows', (backend) => {
  it('begins at once, and runs no more workflows than the process can hold', { timeout: 120_000 }, async () => {
    const database = await backend.newDatabase();
    let [inFlight, peak, ended, isOver] = [0, 0, 0, false];
    const begun = gate();
    const full = gate();
    const wf = workflow('wf', (_: string) =>
      run('work', async () => {
        inFlight++;
        peak = Math.max(peak, inFlight);
        begun.open();
        if (inFlight === maxAtOnce) full.open();
        await full.promise;
        for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
        if (isOver) await forever();
        inFlight--;
        ended++;
      }),
    );
    const common = { workflows: [wf], database, version: 'v1', clock: 'real' } as const;
    const first = await backend.testApp({ ...common, executorId: 'dead' });
    await wf.with({ id: 'model' }).start('x');
    await first.crash();
    await tamper(database, copies(backend.name));
    [inFlight, peak, ended] = [0, 0, 0];
    const launchedAt = performance.now();
    const next = await backend.testApp({ ...common, executorId: 'dead' });
    await begun.promise;
    const firstMs = performance.now() - launchedAt;
    await full.promise;
    await expect.poll(() => ended, { timeout: 30_000 }).toBeGreaterThan(2 * maxAtOnce);
    isOver = true;
    await next.crash();
    const [row] = await tamper(database, `select count(*) as n from workflow_status where owner_xid = 'dead.0'`);
    report(
      `recovery of ${many} (${backend.name}): first body after ${Math.round(firstMs)} ms; at most ${peak} at once; ` +
        `${many - Number(row?.n)} put back within ${Math.round(performance.now() - launchedAt)} ms`,
    );
    expect(peak).toBeLessThanOrEqual(maxAtOnce);
    expect(firstMs).toBeLessThan(5_000);
  });
});

/** Inserts as many workflows as are to be recovered, with the columns of the model row. */
function copies(backend: 'sqlite' | 'postgres'): string {
  const columns =
    'status, name, inputs, serialization, executor_id, application_version, application_name, recovery_attempts, ' +
    'created_at, updated_at, started_at_epoch_ms, priority';
  const numbers =
    backend === 'postgres'
      ? `select generate_series(1, ${many}) as i`
      : `select value as i from (with recursive n(value) as (select 1 union all select value + 1 from n where value < ${many}) select value from n)`;
  return (
    `insert into workflow_status (workflow_uuid, owner_xid, ${columns}) ` +
    `select 'w' || n.i, 'dead.0', ${columns} from workflow_status, (${numbers}) n where workflow_uuid = 'model'`
  );
}
