import { expect, it } from 'vitest';
import { sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { overTime, tamper } from '../support/faults.js';
import { openWire } from './wire.js';

/** Statements that no batch repeats, with a connection that breaks while the statement runs. */
describeBackends('a connection that breaks', suite, ['postgres']);

function suite(backend: Parameters<Parameters<typeof describeBackends>[1]>[0]): void {
  const version = 'v1';
  const work = workflow('work', async () => {
    await sleep('1m');
    return 'done';
  });
  const attempts = 'select recovery_attempts::int as n from workflow_status';

  it.each(['cut-before', 'cut-after'] as const)(
    'during the claim of a resumed workflow strands nothing: the workflow runs once (%s)',
    async (kind) => {
      const database = await backend.newDatabase();
      const wire = await openWire(database);
      const t = await backend.testApp({ database: wire.url, workflows: [work] });
      const handle = await work.start();
      await t.clock.advance('1s');
      await handle.cancel();
      const happened = wire.inject({ statement: 'workflows.dequeue-free', kind });
      await t.app.workflows.resume(handle.id);
      await happened;
      expect(await overTime(t.clock, handle.result())).toBe('done');
      expect(await tamper(database, attempts)).toEqual([{ n: 1 }]);
    },
  );

  it.each(['cut-before', 'cut-after'] as const)(
    'during the recovery of a workflow strands nothing: the workflow runs once (%s)',
    async (kind) => {
      const database = await backend.newDatabase();
      const first = await backend.testApp({ database, workflows: [work], version });
      const { id } = await work.start();
      await first.clock.advance('1s');
      await first.crash();
      const wire = await openWire(database);
      const happened = wire.inject({ statement: 'takeovers.putBack-by-executor', kind });
      const options = { database: wire.url, workflows: [work], version, clock: first.clock };
      const second = await backend.testApp(options);
      await happened;
      expect(await overTime(second.clock, second.app.workflows.handle(id).result())).toBe('done');
      expect(await tamper(database, attempts)).toEqual([{ n: 2 }]);
    },
  );

  it.each(['cut-before', 'cut-after'] as const)('during a hand-over does not delay the work (%s)', async (kind) => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const t = await backend.testApp({ database: wire.url, workflows: [work] });
    await work.start();
    await t.clock.advance('1s');
    const happened = wire.inject({ statement: 'workflows.release', kind });
    await t.app.shutdown();
    await happened;
    expect(await tamper(database, 'select status, owner_xid from workflow_status')).toEqual([
      { status: 'ENQUEUED', owner_xid: null },
    ]);
  });

  it.each([
    ['status', 'workflows.get'],
    ['cancel', 'workflows.cancel'],
  ] as const)('during %s() of a handle in a workflow is not recorded as its outcome', async (call, statement) => {
    const wire = await openWire(await backend.newDatabase());
    const child = workflow('child', async () => 'ended');
    const parent = workflow('parent', async () => {
      const handle = await child.start();
      await handle.result();
      await handle[call]();
      return 'fine';
    });
    const t = await backend.testApp({ database: wire.url, workflows: [child, parent] });
    const happened = wire.inject({ statement, kind: 'cut-before' });
    const handle = await parent.start();
    expect(await t.clock.runUntil(handle.result())).toBe('fine');
    await happened;
  });
}
