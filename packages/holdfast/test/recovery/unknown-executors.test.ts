import { expect, it } from 'vitest';
import { run, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { forever, recordingLogger, tamper } from '../support/faults.js';

describeBackends('work of executors that are not in the table', (backend) => {
  /** What a DBOS process or an older Holdfast leaves behind: PENDING work, and no row in `executors`. */
  async function leftBehind(count: number, version = 'v') {
    const database = await backend.newDatabase();
    const gate = { open: false };
    const wf = workflow('wf', async () => run('work', () => (gate.open ? 'done' : forever())));
    const t = await backend.testApp({ database, workflows: [wf], executorId: 'local', version });
    for (let n = 0; n < count; n++) await wf.with({ id: `w${n}` }).start();
    await t.crash();
    await tamper(database, 'delete from executors');
    await tamper(database, "update workflow_status set owner_xid = 'of-dbos'");
    gate.open = true;
    const logger = recordingLogger();
    const ours = (executorId: string) =>
      backend.testApp({ database, workflows: [wf], executorId, version: 'v', logger });
    return { ours, logger };
  }

  it('causes a warning at launch with counts and advice, and continues when an operator recovers it', async () => {
    const { ours, logger } = await leftBehind(2);
    const { app, clock } = await ours('a');
    const [warning, ...more] = logger.matching(/not in the table of executors/);
    expect(warning).toMatch(/^2 unfinished workflows \(wf\) of this version belong to executors .*: 'local'\./);
    expect(warning).toContain("app.recovery.recover(['local'])");
    await clock.advance('1m');
    expect([...more, ...logger.lines.slice(1)]).toEqual([]);
    const handles = await app.recovery.recover(['local']);
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(['done', 'done']);
  });

  it('is counted by a sweep, which does not touch it', async () => {
    const { ours } = await leftBehind(2);
    const { app } = await ours('a');
    const waiting = {
      ...{ taken: 0, cancelled: 0, waiting: 2, stranded: 0 },
      plan: [
        { workflowId: 'w0', action: 'wait-for-operator' },
        { workflowId: 'w1', action: 'wait-for-operator' },
      ],
    };
    expect(await app.recovery.sweep({ dryRun: true })).toMatchObject(waiting);
    expect(await app.recovery.sweep()).toMatchObject(waiting);
    expect(await app.workflows.get('w0')).toMatchObject({ status: 'PENDING', executorId: 'local' });
  });

  it('causes no warning if it is taken over, if its process lives, or if it belongs to another version', async () => {
    const own = await leftBehind(1);
    const { app } = await own.ours('local');
    expect(await app.workflows.handle('w0').result()).toBe('done');
    const other = await leftBehind(1, 'another');
    await other.ours('a');
    for (const { logger } of [own, other]) expect(logger.matching(/not in the table/)).toEqual([]);
    expect(other.logger.matching(/version "another"/)).toHaveLength(1);
  });
});
