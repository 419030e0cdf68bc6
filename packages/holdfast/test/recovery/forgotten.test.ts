import { expect, it } from 'vitest';
import { connect, queue, run, sleep, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { crashSeenBy } from '../support/deaths.js';
import { failure, gate, isSettled, overTime, tamper } from '../support/faults.js';
import { pass } from '../support/fleet.js';

/** If an executor without a row in the table died, no other executor would find its PENDING work. */
const ownerless =
  "select workflow_uuid from workflow_status where status = 'PENDING' and not exists " +
  "(select 1 from executors e where owner_xid like e.incarnation || '.%')";

describeBackends('a process whose row others have deleted because it was cut off for too long', (backend) => {
  it('starts nothing before its row is back, so that it can die right after', async () => {
    const { a, wf, database } = await scene(backend);
    await forget(a, database);
    const { id } = await overTime(a.clock, wf.with({ app: a.app }).start());
    expect(await tamper(database, ownerless)).toEqual([]);
    await inherited(a, database, id);
  });

  it('starts no child before its row is back', async () => {
    const { a, parent, hold, database } = await scene(backend);
    const handle = await parent.with({ app: a.app }).start();
    await a.clock.advance(0);
    // The row exists while others could take the parent, and is gone by the time the child starts.
    await forget(a, database);
    hold.open();
    const child = `${handle.id}-0`;
    await overTime(a.clock, exists(a, child));
    expect(await tamper(database, ownerless)).toEqual([]);
    await inherited(a, database, child);
  });

  it('takes nothing from a queue before its row is back, and then does so at once', async () => {
    const { a, database } = await scene(backend);
    const client = await connect({ database, name: 'test', logger: silent });
    await forget(a, database);
    const { id } = await client.start('work', { queue: 'q' });
    const statuses = new Set<unknown>();
    for (let n = 0; n < 16; n++) {
      await a.clock.advance(250);
      expect(await tamper(database, ownerless)).toEqual([]);
      statuses.add((await client.workflows.get(id))?.status);
    }
    expect([...statuses].at(-1)).toBe('PENDING');
    await client.close();
    await inherited(a, database, id);
  });

  it('fails a start that waits for its row when the app is shut down, and leaves nothing of that start', async () => {
    const { a, wf, database } = await scene(backend);
    await tamper(database, 'alter table executors rename to executors_away');
    await pass(a.clock, 21_000);
    const starting = failure(wf.with({ id: 'never', app: a.app }).start());
    expect(await isSettled(a.clock, starting)).toBe(false);
    await a.app.shutdown();
    expect(await starting).toMatchObject({ code: 'APP_CLOSED' });
    expect(await tamper(database, 'select workflow_uuid from workflow_status')).toEqual([]);
  });
});

async function scene(backend: Backend) {
  const database = await backend.newDatabase();
  const hold = gate();
  const wf = workflow('work', async () => {
    await run('first', () => 1);
    await sleep('30s');
    return 'done';
  });
  const parent = workflow('parent', async () => {
    await hold.promise;
    return wf();
  });
  const options = { workflows: [wf, parent], queues: [queue('q')], database };
  const a = await backend.testApp({ ...options, executorId: 'a' });
  others.set(a, (clock) => backend.testApp({ ...options, executorId: 'b', clock }));
  return { a, wf, parent, hold, database };
}

const others = new WeakMap<TestApp, (clock: TestApp['clock']) => Promise<TestApp>>();

/** Stops the app's heartbeats until it starts no more steps, and deletes its row, as others do after an hour. */
async function forget(app: TestApp, database: string): Promise<void> {
  await tamper(database, 'alter table executors rename to executors_away');
  await pass(app.clock, 21_000);
  await tamper(database, 'delete from executors_away');
  await tamper(database, 'alter table executors_away rename to executors');
}

async function exists({ app }: TestApp, id: string): Promise<void> {
  while ((await app.workflows.get(id)) === undefined) await new Promise((resolve) => setImmediate(resolve));
}

/** Crashes the app. Another process continues the workflow. */
async function inherited(dying: TestApp, database: string, id: string): Promise<void> {
  const heir = await (others.get(dying) as (clock: TestApp['clock']) => Promise<TestApp>)(dying.clock);
  await crashSeenBy(heir, dying);
  expect(await tamper(database, ownerless)).toEqual([]);
  expect(await overTime(heir.clock, heir.app.workflows.handle(id).result(), 4_000)).toBe('done');
}
