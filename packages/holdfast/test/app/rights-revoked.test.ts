import { expect, it } from 'vitest';
import type { AnyWorkflow } from '../../src/engine/api/workflow.js';
import { debouncer, event, queue, run, schedule, stream, topic, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { failure, gate, recordingLogger, tamper } from '../support/faults.js';
import { restrictedRole } from '../support/roles.js';

const greet = workflow('greet', () => run('compose', () => 'hello'));
const fails = workflow('fails', () => {
  throw new Error('on purpose');
});
const waits = workflow('waits', () => never.receive({ timeout: '1d' }));
const jobs = queue('jobs');
const never = topic<string>('never');
const progress = event<number>('progress');
const lines = stream<string>('lines');
const nightly = schedule('nightly', '0 0 3 1 1 *', greet);

async function restrictedApp(backend: Backend, workflows: readonly AnyWorkflow[] = []) {
  const { grant, revoke, url } = await restrictedRole(await backend.newDatabase());
  await grant();
  const logger = recordingLogger();
  const open = async () => {
    const { app } = await backend.testApp({
      ...{ database: url, clock: 'real', logger, migrate: false },
      ...{ workflows: [greet, fails, waits, ...workflows], queues: [jobs], schedules: [nightly] },
    });
    return app;
  };
  return { app: await open(), open, grant, revoke, logger };
}

describeBackends(
  'a right that is revoked while a process runs',
  (backend) => {
    type Started = Awaited<ReturnType<typeof restrictedApp>>;
    const calls: Readonly<Record<string, readonly [revoked: string, call: (started: Started) => Promise<unknown>]>> = {
      start: ['insert on workflow_status', () => greet.start()],
      'a call': ['insert on workflow_status', () => greet()],
      enqueue: ['usage on sequence holdfast_enqueue_seq', () => greet.with({ queue: jobs }).start()],
      'startAll()': ['usage on sequence holdfast_enqueue_seq', () => greet.with({ queue: jobs }).startAll([[], []])],
      'send()': ['insert on notifications', async () => never.send((await waits.start()).id, 'x')],
      'result() of a workflow elsewhere': [
        'select on workflow_status',
        ({ app }) => app.workflows.handle('elsewhere').result(),
      ],
      'status()': ['select on workflow_status', ({ app }) => app.workflows.handle('elsewhere').status()],
      'get() of an event': ['select on workflow_events', () => progress.get('elsewhere', { timeout: '1d' })],
      'read() of a stream': ['select on streams', () => lines.read('elsewhere').next()],
      'debounce()': ['insert on workflow_status', () => debouncer(greet).debounce('key', '1h')],
      'trigger()': ['insert on workflow_status', ({ app }) => app.schedules.trigger('nightly')],
      'fork()': [
        'insert on operation_outputs',
        async ({ app }) => {
          const { id } = await waits.start();
          return app.workflows.fork(id);
        },
      ],
      'retry()': [
        'delete on operation_outputs',
        async ({ app }) => {
          const handle = await fails.start();
          await handle.result().catch(() => {});
          return app.workflows.retry(handle.id);
        },
      ],
      'cancel()': ['update on workflow_status', async ({ app }) => app.workflows.cancel((await waits.start()).id)],
      'delete()': ['delete on workflow_status', ({ app }) => app.workflows.delete('elsewhere')],
      'sweep()': ['select on executors', ({ app }) => app.recovery.sweep()],
      'pause() of a queue': ['update on queues', ({ app }) => app.queues.pause('jobs')],
    };

    it.each(Object.entries(calls))('makes %s fail at once with a typed error', async (_, [revoked, call]) => {
      const started = await restrictedApp(backend);
      await started.revoke(revoked.replace(' on ', ' on ').replace(/on (sequence )?(\w+)$/, 'on $1dbos.$2'));
      const error = await failure(call(started));
      expect(error).toMatchObject({ code: 'RIGHTS_MISSING', cause: { code: '42501' } });
      expect(error.message).toMatch(/permission denied.*holdfast schema --grants/);
      await started.grant();
      expect(await greet()).toBe('hello');
    });
  },
  ['postgres'],
);

describeBackends(
  'a running workflow whose process loses a right',
  (backend) => {
    /** A workflow with two steps. The first step waits for the test. */
    const stepping = () => {
      const [reached, go] = [gate(), gate()];
      const bodies: string[] = [];
      const first = workflow('first', async () => {
        await run('one', async () => {
          bodies.push('one');
          reached.open();
          await go.promise;
        });
        await run('two', async () => bodies.push('two'));
        return 'done';
      });
      const second = workflow('second', () => run('other', async () => bodies.push('other')));
      return { first, second, reached, go, bodies };
    };
    const refusals = /outcomes of steps or workflows cannot be recorded.*lacks a right/s;

    it('keeps the outcome of its step, starts no other step, and continues when the right is back', async () => {
      const { first, second, reached, go, bodies } = stepping();
      const { grant, revoke, logger, app } = await restrictedApp(backend, [first, second]);
      const handle = await first.start();
      await reached.promise;
      await revoke('insert on dbos.operation_outputs');
      go.open();
      await expect.poll(() => logger.matching(refusals).length).toBe(1);
      // The start is durable. No step that could not be recorded runs, and no workflow is taken from a queue.
      const later = await second.start();
      const queued = await second.with({ queue: jobs }).start();
      await expect.poll(async () => (await app.workflows.get(later.id))?.status).toBe('PENDING');
      await app.recovery.sweep();
      expect((await app.workflows.get(queued.id))?.status).toBe('ENQUEUED');
      expect(bodies).toEqual(['one']);
      await grant();
      expect(await handle.result()).toBe('done');
      await Promise.all([later.result(), queued.result()]);
      expect(bodies.sort()).toEqual(['one', 'other', 'other', 'two']);
      expect(logger.matching(refusals)).toHaveLength(1);
    });

    it('keeps the outcome of the workflow until the right is back', async () => {
      const { first, reached, go, bodies } = stepping();
      const { grant, revoke, logger, app } = await restrictedApp(backend, [first]);
      const handle = await first.start();
      await reached.promise;
      // The checkpoint of a step locks the workflow row, so the checkpoint needs this right too.
      await revoke('update on dbos.workflow_status');
      go.open();
      await expect.poll(() => logger.matching(refusals).length).toBe(1);
      expect((await app.workflows.get(handle.id))?.status).toBe('PENDING');
      await grant();
      expect(await handle.result()).toBe('done');
      expect(bodies).toEqual(['one', 'two']);
    });

    it('is handed over at shutdown; the step whose outcome was not recorded runs again', async () => {
      const { first, reached, go, bodies } = stepping();
      const { app, open, grant, revoke, logger } = await restrictedApp(backend, [first]);
      const { id } = await first.start();
      await reached.promise;
      await revoke('insert on dbos.operation_outputs');
      go.open();
      await expect.poll(() => logger.matching(refusals).length).toBe(1);
      await app.shutdown();
      await grant();
      const next = await open();
      expect(await next.workflows.handle(id).result()).toBe('done');
      expect(bodies).toEqual(['one', 'one', 'two']);
    }, 30_000);

    it.each([
      ['a child', 'insert on dbos.workflow_status', (): Promise<unknown> => greet()],
      [
        'a child on a queue',
        'usage on sequence dbos.holdfast_enqueue_seq',
        async () => {
          await (await greet.with({ queue: jobs }).start()).result();
        },
      ],
      ['an event', 'insert on dbos.workflow_events', async () => progress.set(1)],
      ['a stream value', 'insert on dbos.streams', async () => lines.write('x')],
    ] as const)('waits with %s instead of failing', async (_, right, act) => {
      const [reached, go] = [gate(), gate()];
      const acts = workflow('acts', async (): Promise<string> => {
        await run('wait', async () => {
          reached.open();
          await go.promise;
        });
        await act();
        return 'done';
      });
      const { grant, revoke, logger } = await restrictedApp(backend, [acts]);
      const handle = await acts.start();
      await reached.promise;
      await revoke(right);
      go.open();
      await expect.poll(() => logger.matching(/is tried again.*lacks a right/).length).toBeGreaterThan(0);
      await grant();
      expect(await handle.result()).toBe('done');
    });

    it('waits for a message even while it may not query messages', async () => {
      const hears = workflow('hears', () => never.receive({ timeout: '1d' }));
      const { grant, revoke, logger } = await restrictedApp(backend, [hears]);
      const handle = await hears.start();
      await revoke('select on dbos.notifications');
      await expect.poll(() => logger.matching(/Polling for messages failed.*lacks a right/).length).toBeGreaterThan(0);
      await grant();
      await never.send(handle.id, 'x');
      expect(await handle.result()).toBe('x');
    });
  },
  ['postgres'],
);

describeBackends('a column that is renamed while a process runs', (backend) => {
  it('makes a start fail at once with a typed error, until the column is back', async () => {
    const database = await backend.newDatabase();
    await backend.testApp({ database, clock: 'real', workflows: [greet] });
    await tamper(database, 'alter table workflow_status rename column inputs to taken');
    const error = await failure(greet.start());
    expect(error).toMatchObject({ code: 'SCHEMA_MISMATCH' });
    await tamper(database, 'alter table workflow_status rename column taken to inputs');
    expect(await greet()).toBe('hello');
  });

  it('delays the outcome of a step, which stays in memory until the column is back', async () => {
    const [reached, go] = [gate(), gate()];
    let bodies = 0;
    const steps = workflow('steps', async () =>
      run('one', async () => {
        bodies++;
        reached.open();
        await go.promise;
      }),
    );
    const database = await backend.newDatabase();
    const logger = recordingLogger();
    await backend.testApp({ database, clock: 'real', logger, workflows: [steps] });
    const handle = await steps.start();
    await reached.promise;
    await tamper(database, 'alter table operation_outputs rename column output to taken');
    go.open();
    await expect.poll(() => logger.matching(/cannot be recorded.*lacks a table, column or function/s).length).toBe(1);
    await tamper(database, 'alter table operation_outputs rename column taken to output');
    await handle.result();
    expect(bodies).toBe(1);
  });
});
