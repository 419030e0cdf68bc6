import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { context, queue, run, schedule, sleep, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { failure, gate, recordingLogger, tamper } from '../support/faults.js';

describeBackends('a call during which the database fails', suite);

/** The error with which each database refuses a connection or a lock: certainly nothing was done. */
const refusals = { postgres: '53300', sqlite: 'SQLITE_BUSY' };

function suite(backend: Backend): void {
  /** Launches an app whose statements of one name fail, from the nth one on, until `accept`. */
  async function launched() {
    const database = await backend.newDatabase();
    const refusal = Object.assign(new Error('no room'), { code: refusals[backend.name] });
    let armed: { name: string; nth: number } | undefined;
    const probe = (name: string) => {
      if (armed?.name === name && --armed.nth <= 0) throw refusal;
      return () => {};
    };
    const started = gate<AbortSignal>();
    const waits = workflow('waits', async () => {
      await run('signal', () => started.open(context().signal));
      await sleep('1h');
    });
    const options = { workflows: [waits], queues: [queue('jobs')], logger: recordingLogger() };
    const app = await launchWith({ name: 'test', database, ...options }, { probe });
    onTestFinished(() => app.shutdown().catch(() => {}));
    const refuse = (name: string, nth: number): void => {
      armed = { name, nth };
    };
    const accept = (): void => {
      armed = undefined;
    };
    return { app, database, waits, started: started.promise, refuse, accept };
  }

  const failed = (statement: string, applied: 'no' | 'unknown') => ({
    code: 'DATABASE_FAILED',
    details: { statement, applied },
  });

  it('says that nothing changed only if nothing was applied: cancel(), which still aborts its workflows', async () => {
    const { app, database, waits, started, refuse, accept } = await launched();
    const handle = await waits.with({ id: 'a' }).start();
    const signal = await started;
    refuse('workflows.cancel', 1);
    expect(await failure(app.workflows.cancel('a'))).toMatchObject(failed('workflows.cancel', 'no'));
    expect(signal.aborted).toBe(false);
    refuse('workflows.cancel', 2);
    expect(await failure(app.workflows.cancel('a'))).toMatchObject(failed('workflows.cancel', 'unknown'));
    expect(await tamper(database, 'select status from workflow_status')).toEqual([{ status: 'CANCELLED' }]);
    expect(signal.aborted).toBe(true);
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    accept();
    await app.workflows.cancel('a');
  });

  it('says that the outcome is unknown if queue settings are stored but partition keys are not', async () => {
    const { app, refuse, accept } = await launched();
    refuse('queues.change', 1);
    const changes = { partition: { concurrency: 1 } };
    expect(await failure(app.queues.update('jobs', changes))).toMatchObject(failed('queues.change', 'no'));
    expect(await app.queues.get('jobs')).toMatchObject({ partition: undefined });
    refuse('queues.giveKeys', 1);
    expect(await failure(app.queues.update('jobs', changes))).toMatchObject(failed('queues.giveKeys', 'unknown'));
    expect(await app.queues.get('jobs')).toMatchObject({ partition: { concurrency: 1 } });
    accept();
    expect(await app.queues.update('jobs', changes)).toMatchObject({ partition: { concurrency: 1 } });
  });

  it('says that the outcome is unknown if schedules may already be stored', async () => {
    const { app, waits, refuse, accept } = await launched();
    const nightly = schedule('nightly', '0 3 * * *', waits);
    refuse('schedules.list', 1);
    expect(await failure(app.schedules.apply([nightly]))).toMatchObject(failed('schedules.list', 'no'));
    accept();
    expect(await app.schedules.list()).toEqual([]);
    refuse('schedules.list', 2);
    expect(await failure(app.schedules.apply([nightly]))).toMatchObject(failed('schedules.list', 'unknown'));
    accept();
    expect(await app.schedules.list()).toMatchObject([{ name: 'nightly' }]);
  });
}
