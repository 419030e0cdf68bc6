import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Runtime } from '../../src/engine/runtime.js';
import { run, sleep, workflow } from '../../src/index.js';
import { internalQueue } from '../../src/model/queues.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, gate, tamper } from '../support/faults.js';

/** Events between the commit of a statement and the moment at which this process receives the answer. */
describeBackends('while an answer of the database is pending,', (backend) => {
  async function launch(options: { database?: string; workflows: readonly unknown[]; version?: string }) {
    const database = options.database ?? (await backend.newDatabase());
    let engine!: Runtime;
    const onStart = (started: Runtime): void => {
      engine = started;
    };
    const app = await launchWith({ name: 'test', logger: silent, ...options, database } as never, { onStart });
    onTestFinished(() => app.shutdown());
    return { app, database, engine, ...engine.storage };
  }

  /** Other processes take the workflow over and finish it. Then the former owner gets a notification and notices. */
  async function takeOver({ storage, news, writer }: Runtime, id: string, takeUp: () => Promise<void>): Promise<void> {
    const { workflows, executors } = storage;
    const [{ owner } = { owner: null }] = await workflows.get([id]);
    const owned = [{ workflowId: id, owner: owner ?? '' }];
    await workflows.release({ owned, queueName: internalQueue, now: 0 });
    await takeUp();
    await expect.poll(async () => (await workflows.get([id]))[0]?.status).toBe('SUCCESS');
    const heard = gate();
    const { beat } = executors;
    executors.beat = async (...args) => {
      const standing = await beat.apply(executors, args);
      setImmediate(() => heard.open());
      return standing;
    };
    await executors.recordTakeover([{ executorId: writer.executorId, incarnation: null }]);
    news.announce('takeover');
    await heard.promise;
  }

  /** Runs something just before or after the real statement. */
  function around<T extends object, K extends keyof T>(
    noun: T,
    name: K,
    when: { before?: () => Promise<unknown>; after?: () => Promise<unknown> },
  ): void {
    const real = (noun[name] as (...args: unknown[]) => Promise<unknown>).bind(noun);
    const wrapped = async (...args: unknown[]): Promise<unknown> => {
      await when.before?.();
      const answer = await real(...args);
      await when.after?.();
      return answer;
    };
    noun[name] = wrapped as T[K];
  }

  it('a workflow that is cancelled does not run a single step', async () => {
    let ran = 0;
    const wf = workflow('wf', () => run('step', () => void ran++));
    const { app, workflows } = await launch({ workflows: [wf] });
    around(workflows, 'insertMany', { after: () => app.workflows.cancel('x') });
    const handle = await wf.with({ id: 'x' }).start();
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(ran).toBe(0);
  });

  it('a workflow that others take over and finish does not run a single step', async () => {
    let ran = 0;
    const wf = workflow('wf', () => run('step', () => void ran++));
    const { engine, workflows } = await launch({ workflows: [wf] });
    const takeUp = async (): Promise<void> => engine.news.announce('queues');
    let taken: Promise<void> | undefined;
    around(workflows, 'insertMany', { after: () => (taken ??= takeOver(engine, 'x', takeUp)) });
    const handle = await wf.with({ id: 'x' }).start();
    await handle.result();
    await engine.checkpoints.idle();
    expect([ran, engine.executions.size]).toEqual([1, 0]);
  });

  it('a claim that others take over and finish while its history is read does not run a step', async () => {
    let ran = 0;
    const [begun, goOn] = [gate(), gate()];
    const wf = workflow('wf', async () => {
      await run('first', () => begun.open());
      await goOn.promise;
      await run('second', () => void ran++);
    });
    const database = await backend.newDatabase();
    const options = { workflows: [wf], version: 'v1', database };
    const first = await backend.testApp(options);
    const { id } = await wf.with({ app: first.app }).start();
    await begun.promise;
    const { app, engine } = await launch(options);
    const takeUp = async (): Promise<void> => {
      await launch(options);
      goOn.open();
    };
    const taken = gate();
    around(engine.storage.steps, 'history', { after: async () => taken.open(await takeOver(engine, id, takeUp)) });
    await first.app.shutdown();
    await taken.promise;
    await app.workflows.handle(id).result();
    await app.shutdown();
    expect(ran).toBe(1);
  });

  it('a parent that another program cancels as it starts a child sees the cancellation', async () => {
    const seen = gate<string>();
    const child = workflow('child', async () => {});
    const parent = workflow('parent', () =>
      child().catch((error) => {
        seen.open(error.code);
        throw error;
      }),
    );
    const { database, workflows } = await launch({ workflows: [child, parent] });
    const cancel = "update workflow_status set status = 'CANCELLED', completed_at = 1";
    around(workflows, 'insertChildren', { before: () => tamper(database, cancel) });
    const handle = await parent.start();
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(await seen.promise).toBe('WORKFLOW_CANCELLED');
  });

  it('a recovery that was requested before a shutdown leaves nothing with the closed app', async () => {
    const wf = workflow('wf', () => sleep('1d'));
    const database = await backend.newDatabase();
    const dead = await backend.testApp({ workflows: [wf], version: 'v1', executorId: 'dead', database });
    await wf.start();
    await dead.clock.advance('1m');
    await dead.crash();
    const { app, takeovers } = await launch({ workflows: [wf], version: 'v1', database });
    const claim = gate();
    around(takeovers, 'putBack', { before: () => claim.promise });
    const recovering = app.recovery.recover(['dead']);
    const closing = app.shutdown();
    claim.open();
    await Promise.all([recovering, closing]);
    expect(await tamper(database, 'select status, executor_id from workflow_status')).toEqual([
      { status: 'ENQUEUED', executor_id: null },
    ]);
  });

  it('a start whose input is still being validated when the app closes fails with APP_CLOSED', async () => {
    const checked = gate();
    const validate = async (value: unknown) => {
      await checked.promise;
      return { value };
    };
    const wf = workflow('wf', async (value: unknown) => value, {
      input: { '~standard': { version: 1, vendor: 'test', validate } },
    });
    const { app } = await launch({ workflows: [wf] });
    const started = failure(wf.start(1));
    await app.shutdown();
    checked.open();
    expect(await started).toMatchObject({ code: 'APP_CLOSED' });
  });

  it('every operation on a closed app fails with APP_CLOSED', async () => {
    const wf = workflow('wf', async () => 1);
    const { app } = await launch({ workflows: [wf] });
    const handle = await wf.start();
    await handle.result();
    await app.shutdown();
    const { workflows, versions } = app;
    const { id } = handle;
    const late: (() => Promise<unknown>)[] = [handle.result, handle.status, handle.cancel, workflows.list];
    late.push(
      () => workflows.get(id),
      () => workflows.steps(id),
      () => workflows.resume(id),
      () => workflows.cancel(id),
      versions.list,
      versions.latest,
    );
    for (const each of late) expect(await failure(each())).toMatchObject({ code: 'APP_CLOSED' });
  });

  it('a step attempt that is already recorded does not start if this process may be considered dead', async () => {
    let attempts = 0;
    const hold = gate();
    const wf = workflow('wf', async () => {
      await run('first', () => {});
      await run('second', () => (attempts++ === 0 ? hold.promise : undefined), { retries: 1 });
    });
    const { app, engine, steps } = await launch({ workflows: [wf] });
    const handle = await wf.start();
    await expect.poll(() => attempts).toBe(1);
    await handle.cancel();
    const { startGate } = engine;
    const answered = gate();
    let isHeard = true;
    Object.defineProperty(startGate, 'isOpen', { get: () => isHeard });
    around(steps, 'changeAttempts', {
      after: async () => {
        isHeard = false;
        answered.open();
      },
    });
    await app.workflows.resume(handle.id);
    await answered.promise;
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(attempts).toBe(1);
    isHeard = true;
    startGate.confirmUntil(Number.POSITIVE_INFINITY);
    await handle.result();
    expect(attempts).toBe(2);
  });
});
