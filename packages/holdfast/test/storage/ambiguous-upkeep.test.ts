import { expect, it } from 'vitest';
import { context, run, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { overTime, tamper } from '../support/faults.js';
import { openWire } from './wire.js';

/** Forks, retries and deletions with a connection that breaks meanwhile. */
describeBackends('a connection that breaks', suite, ['postgres']);

const kinds = ['cut-before', 'cut-after'] as const;

function suite(backend: Backend): void {
  let runs = 0;
  const work = workflow('work', async () => {
    await run('a', () => 0);
    return run('b', () => ++runs);
  });
  const launch = async () => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const t = await backend.testApp({ database: wire.url, workflows: [work] });
    runs = 0;
    await work.with({ id: 'x' })();
    return { database, wire, t };
  };

  it.each(kinds)('during a fork leaves one complete fork, whose ID only the call knows (%s)', async (kind) => {
    const { database, wire, t } = await launch();
    const happened = wire.inject({ statement: 'workflows.fork', kind });
    const fork = await t.app.workflows.fork('x', { fromStep: 1 });
    await happened;
    expect(await overTime(t.clock, fork.result())).toBe(2);
    expect(await tamper(database, 'select count(*)::int as n from workflow_status')).toEqual([{ n: 2 }]);
    expect((await t.app.workflows.steps(fork.id)).map(({ name }) => name)).toEqual(['a', 'b']);
  });

  it.each(kinds)('during a retry lets the workflow continue once (%s)', async (kind) => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    let tries = 0;
    const failing = workflow('failing', () =>
      run('b', () => (++tries === 1 ? Promise.reject(new Error('no')) : tries)),
    );
    const t = await backend.testApp({ database: wire.url, workflows: [failing] });
    await expect(failing.with({ id: 'x' })()).rejects.toThrow('no');
    const happened = wire.inject({ statement: 'workflows.retry', kind });
    const handle = await t.app.workflows.retry('x');
    await happened;
    expect(await overTime(t.clock, handle.result())).toBe(2);
    expect((await handle.status()).retries).toHaveLength(1);
  });

  it.each(kinds)('while a failed attempt is recorded counts the attempt once (%s)', async (kind) => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const flaky = workflow('flaky', () =>
      run('b', () => (context().attempt < 3 ? Promise.reject(new Error('no')) : 'done'), { retries: 2 }),
    );
    const t = await backend.testApp({ database: wire.url, workflows: [flaky] });
    const happened = wire.inject({ statement: 'steps.attempt', kind });
    const handle = await flaky.start();
    expect(await overTime(t.clock, handle.result())).toBe('done');
    await happened;
    expect(await tamper(database, 'select attempt, interrupted from step_attempts')).toEqual([
      { attempt: 2, interrupted: '' },
    ]);
  });

  it.each(kinds)('during a deletion leaves all or nothing, and the deletion can be repeated (%s)', async (kind) => {
    const { database, wire, t } = await launch();
    const happened = wire.inject({ statement: 'workflows.delete', kind });
    const error = await t.app.workflows.delete('x').then(
      () => undefined,
      (failed) => failed,
    );
    await happened;
    expect(error).toMatchObject({ code: 'DATABASE_FAILED' });
    const left = await tamper(database, 'select count(*)::int as n from operation_outputs');
    expect([[{ n: 0 }], [{ n: 2 }]]).toContainEqual(left);
    await t.app.workflows.delete('x');
    expect(await tamper(database, 'select count(*)::int as n from workflow_status')).toEqual([{ n: 0 }]);
    expect(await overTime(t.clock, work.with({ id: 'x' })())).toBe(2);
  });
}
