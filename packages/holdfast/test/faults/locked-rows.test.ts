import pg from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { connect, event, type LaunchOptions, queue, run, sleep, stream, topic, workflow } from '../../src/index.js';
import type { StatementProbe } from '../../src/storage/contract/probe.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { failure, gate, recordingLogger, tamper } from '../support/faults.js';
import { openProxy } from './proxy.js';

const answerTimeoutMs = 2_000;
const flights = 60;

/** A client left a session open in the middle of a transaction that has locked a workflow's row. */
describeBackends('a session that is idle in a transaction and locks a row', suite, ['postgres']);

const progress = event<number>('progress');
const log = stream<number>('log');
const letters = topic<string>('letters');

/** The next write of a workflow whose row is already locked. */
const nextWrites: Record<string, (id: string) => Promise<unknown>> = {
  'the checkpoint of a step': () => run('second', () => {}),
  'an outcome': async () => {},
  'an event': () => progress.set(1),
  'a write to a stream': () => log.write(1),
  'the start of a child': (id) => child.with({ id: `${id}/child` })(),
  'the start of a child on a queue': (id) => child.with({ id: `${id}/child`, queue: 'jobs' }).start(),
};
const child = workflow('child', async () => 'child');

function suite(backend: Backend): void {
  it.each(Object.keys(nextWrites))('blocks only that workflow at %s, and no other', async (what) => {
    const ran = new Map<string, number>();
    const go = gate();
    let ready = 0;
    const work = workflow('work', async (id: string) => {
      await run('first', () => void ran.set(id, (ran.get(id) ?? 0) + 1));
      if (++ready === flights) opened.open();
      await go.promise;
      await nextWrites[what]?.(id);
      return id;
    });
    const opened = gate();
    const { database, logger } = await launched(backend, [work, child]);
    const ids = Array.from({ length: flights }, (_, i) => `wf-${String(i).padStart(2, '0')}`);
    const handles = await Promise.all(ids.map((id) => work.with({ id }).start(id)));
    await opened.promise;
    // This row is in the middle of the order in which a batch locks its rows.
    const unlock = await lock(database, `select 1 from dbos.workflow_status where workflow_uuid = 'wf-30' for update`);
    go.open();
    const [held] = handles.splice(30, 1);
    const ended = await Promise.all(handles.map((handle) => handle.result()));
    expect(ended).toEqual(ids.filter((id) => id !== 'wf-30'));
    expect(await status(database, 'wf-30')).toBe('PENDING');
    // Work that begins now also continues.
    expect(await child()).toBe('child');
    await unlock();
    expect(await held?.result()).toBe('wf-30');
    expect([...ran.values()].every((times) => times === 1)).toBe(true);
    const recorded = await tamper(
      database,
      'select recovery_attempts::int as attempts from workflow_status where name = $$work$$',
    );
    expect(recorded).toEqual(Array(flights).fill({ attempts: 1 }));
    expect(logger.lines.filter((line) => !/another session has locked/.test(line))).toEqual([]);
  });

  it('blocks recovery of only that workflow of a dead executor', async () => {
    const work = workflow('work', (id: string) => run('only', () => id));
    const { app, database } = await launched(backend, [work]);
    const ids = ['a', 'b', 'c'];
    await tamper(
      database,
      ids
        .map(
          (
            id,
          ) => `insert into workflow_status (workflow_uuid, name, status, executor_id, owner_xid, application_version,
        application_name, inputs, serialization, recovery_attempts) select '${id}', 'work', 'PENDING', 'dead', 'gone.1',
        version_name, application_name, '{"positionalArgs":["${id}"]}', 'portable_json', 1 from application_versions limit 1`,
        )
        .join(';'),
    );
    const unlock = await lock(database, `select 1 from dbos.workflow_status where workflow_uuid = 'b' for update`);
    await app.recovery.recover(['dead']);
    expect(await Promise.all(['a', 'c'].map((id) => app.workflows.handle(id).result()))).toEqual(['a', 'c']);
    expect(await status(database, 'b')).toBe('PENDING');
    await unlock();
    await app.recovery.recover(['dead']);
    expect(await app.workflows.handle('b').result()).toBe('b');
  });

  it('delays messages to that workflow, keeps their order, and delays no other messages', async () => {
    const receiver = workflow('receiver', async () => {
      const all: (string | undefined)[] = [];
      for (let i = 0; i < 3; i++) all.push(await letters.receive({ timeout: '1m' }));
      return all.join();
    });
    const { database } = await launched(backend, [receiver]);
    const handles = await Promise.all(['a', 'b'].map((id) => receiver.with({ id }).start()));
    // For a foreign key check, the lock looks like that of a row that is being deleted.
    const unlock = await lock(database, `select 1 from dbos.workflow_status where workflow_uuid = 'a' for update`);
    const sent = ['1', '2', '3'].flatMap((value) => ['a', 'b'].map((id) => letters.send(id, value)));
    expect(await handles[1]?.result()).toBe('1,2,3');
    await unlock();
    await Promise.all(sent);
    expect(await handles[0]?.result()).toBe('1,2,3');
  });

  it.each([2, 10])('occupies at most one connection of %i, whatever else that workflow writes', async (poolSize) => {
    const [ready, go] = [gate(), gate()];
    const held = workflow('held', async () => {
      await run('first', () => {});
      ready.open();
      await go.promise;
      const children = [child.with({ id: 'c1' })(), child.with({ id: 'c2', queue: 'jobs' }).start()];
      await Promise.all([run('second', () => {}), progress.set(1), log.write(1), ...children]);
    });
    const other = workflow('other', async () => {
      for (let i = 0; i < 50; i++) await run('step', () => {});
    });
    const failures = new Map<string, number>();
    const probe: StatementProbe = (name) => (moment) => {
      if (moment === 'failed') failures.set(name, (failures.get(name) ?? 0) + 1);
    };
    const { database } = await launched(backend, [held, other, child], { poolSize }, { probe });
    const handle = await held.start();
    await ready.promise;
    const unlock = await lock(database, `select 1 from dbos.workflow_status where name = 'held' for update`);
    go.open();
    // The first lock timeout of each kind has passed.
    await vi.waitFor(() => expect([...failures.values()].filter((times) => times > 1)).toHaveLength(4), 20_000);
    const others = Promise.all([other(), other(), other()]).then(() => true);
    const waiting: number[] = [];
    while (!(await Promise.race([others, false]))) waiting.push(await waitingForLocks(database));
    expect(Math.max(0, ...waiting)).toBeLessThanOrEqual(1);
    await unlock();
    await handle.result();
  });

  it('does not change the order of what that workflow writes, whenever the lock is released', async () => {
    let places: ReturnType<typeof gate>[] = [];
    let begun = 0;
    const writer = workflow('writer', async (at: number[]) => {
      await run('first', () => {});
      begun++;
      const next = [() => log.write(1), () => log.write(2), () => log.close()];
      const writes: Promise<void>[] = [];
      for (const [i, place] of at.entries()) {
        await places[place]?.promise;
        writes.push(next[i]?.() as Promise<void>, progress.set(i));
      }
      await Promise.all(writes);
    });
    const { database } = await launched(backend, [writer]);
    for (let round = 1; round <= 8; round++) {
      places = Array.from({ length: 13 }, () => gate());
      begun = 0;
      // The writes of x are spread over a batch, between other writes and those of y, which is also locked.
      const plan: [string, number[]][] = [
        ['x', [0, 4, 12]],
        ['y', [5]],
      ];
      for (const place of [1, 2, 3, 6, 7, 9, 10, 11]) plan.push([`o${place}`, [place]]);
      const [x, y, ...others] = await Promise.all(
        plan.map(([name, at]) => writer.with({ id: `${name}-${round}` }).start(at)),
      );
      await expect.poll(() => begun).toBe(plan.length);
      const rows = `workflow_uuid in ('x-${round}', 'y-${round}')`;
      const unlock = await lock(database, `select 1 from dbos.workflow_status where ${rows} for update`);
      for (const place of places.slice(0, 12)) await openAlone(place);
      // The writer is still finding out which rows are locked. The last write of x comes after it knows.
      const ended = others.map((handle) => handle.result());
      await reached(round, ended);
      places[12]?.open(undefined);
      await unlock();
      await Promise.all([x?.result(), y?.result(), ...ended]);
      const read: number[] = [];
      for await (const value of log.read(`x-${round}`)) read.push(value);
      expect(read).toEqual([1, 2]);
      expect(await progress.get(`x-${round}`)).toBe(2);
    }
  });

  it('blocks handover of only that workflow at shutdown', async () => {
    const work = workflow('work', () => sleep('1h'));
    const { app, database } = await launched(backend, [work]);
    for (const id of ['a', 'b', 'c']) await work.with({ id }).start();
    await expect.poll(() => tamper(database, 'select 1 from operation_outputs')).toHaveLength(3);
    await lock(database, `select 1 from dbos.workflow_status where workflow_uuid = 'b' for update`);
    await app.shutdown();
    const statuses = await Promise.all(['a', 'b', 'c'].map((id) => status(database, id)));
    expect(statuses).toEqual(['ENQUEUED', 'PENDING', 'ENQUEUED']);
  });

  it('leaves no message without an answer at shutdown', async () => {
    const work = workflow('work', () => sleep('1h'));
    const { app, database } = await launched(backend, [work]);
    for (const id of ['a', 'b']) await work.with({ id }).start();
    await lock(database, `select 1 from dbos.workflow_status where workflow_uuid = 'a' for update`);
    const sent = ['a', 'b', 'a'].map((id) =>
      letters.send(id, 'x').then(
        () => 'sent',
        (error) => error.code,
      ),
    );
    await app.shutdown();
    expect(await Promise.all(sent)).toEqual(['APP_CLOSED', 'sent', 'APP_CLOSED']);
  });

  it('delays single and batch starts on the queue that it was about to delete, and on no other queue', async () => {
    const { database } = await launched(backend, [child], { queues: [queue('jobs'), queue('mail')] });
    const unlock = await lock(database, `delete from dbos.queues where name = 'jobs'`);
    const ended: string[] = [];
    const start = (name: string) =>
      child
        .with({ queue: name })
        .start()
        .then(() => void ended.push(name));
    const startAll = (name: string) =>
      child
        .with({ queue: name })
        .startAll([[], []])
        .then(() => void ended.push(name));
    const held = [start('jobs'), startAll('jobs')];
    await Promise.all([start('mail'), startAll('mail')]);
    expect(ended).toEqual(['mail', 'mail']);
    await unlock();
    await Promise.all(held);
  });

  it('delays the deduplication ID that it is about to use, and nothing else of that queue', async () => {
    const { database } = await launched(backend, [child]);
    const client = await connect({ database, logger: recordingLogger() });
    onTestFinished(() => client.close());
    const session = await openSession(database);
    await session.query('begin');
    await client.startIn(session, 'child', { queue: 'jobs', dedupId: 'd' });
    const held = [
      child.with({ queue: 'jobs', dedupId: 'd' }).start(),
      child.with({ queue: 'jobs', dedupId: 'd' }).startAll([[]]),
    ];
    const codes = held.map((each) =>
      each.then(
        () => 'started',
        (error) => error.code,
      ),
    );
    const passing = [child.with({ queue: 'jobs' }).start(), child.with({ queue: 'jobs', dedupId: 'e' }).start()];
    await Promise.all(passing);
    await child.with({ queue: 'jobs' }).startAll([[], []]);
    await session.query('commit');
    expect(await codes[0]).toMatch(/started|QUEUE_DUPLICATE/);
    await Promise.all(codes);
  });

  it('does not fail a launch that assigns partition keys to queued workflows', async () => {
    const work = workflow('work', () => sleep('1h'));
    const { app, database } = await launched(backend, [work]);
    for (const id of ['a', 'b']) await work.with({ id, queue: 'jobs' }).start();
    const unlock = await lock(database, `select 1 from dbos.workflow_status where workflow_uuid = 'a' for update`);
    const options = { queues: [queue('jobs', { partition: { concurrency: 1 } })] };
    await app.queues.update('jobs', { partition: { concurrency: 1 } });
    const keys = await tamper(
      database,
      'select workflow_uuid as id, queue_partition_key is null as keyless from workflow_status order by 1',
    );
    expect(keys).toEqual([
      { id: 'a', keyless: true },
      { id: 'b', keyless: false },
    ]);
    const again = await launchWith(
      { name: 'test', database, workflows: [work], ...options, logger: recordingLogger() },
      { answerTimeoutMs },
    );
    await again.shutdown();
    await unlock();
  });

  it('is ended by the server if it is an abandoned session of Holdfast', async () => {
    const database = await backend.newDatabase();
    const proxy = await openProxy(database);
    onTestFinished(() => proxy.close());
    const { app } = await launched(backend, [child], { database: proxy.url });
    const hole = proxy.arm({ kind: 'black-hole', at: 'commit' });
    expect(await failure(app.queues.delete('jobs'))).toMatchObject({ code: 'DATABASE_FAILED' });
    await hole.landed;
    // Until then the session locks the queue, so no other session can enqueue on it.
    const handle = await child.with({ queue: 'jobs' }).start();
    expect(await handle.result()).toBe('child');
    expect(await idleInTransaction(database)).toBe(0);
  });
}

async function idleInTransaction(database: string): Promise<number> {
  const sessions = `select 1 from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`;
  return (await tamper(database, sessions)).length;
}

type Internals = NonNullable<Parameters<typeof launchWith>[1]>;

async function launched(
  backend: Backend,
  workflows: NonNullable<LaunchOptions['workflows']>,
  more: Partial<LaunchOptions> & { readonly database?: string } = {},
  internals: Internals = {},
) {
  const database = more.database ?? (await backend.newDatabase());
  const logger = recordingLogger();
  const options = { name: 'test', workflows, queues: [queue('jobs')], logger, ...more, database };
  const app = await launchWith(options, { answerTimeoutMs, ...internals });
  onTestFinished(() => app.shutdown());
  return { app, database, logger };
}

/** Returns a function that releases the lock. */
async function lock(database: string, statement: string): Promise<() => Promise<void>> {
  const session = await openSession(database);
  await session.query(`begin; ${statement}`);
  return async () => void (await session.query('rollback'));
}

async function openSession(database: string): Promise<pg.Client> {
  const session = new pg.Client(database);
  await session.connect();
  onTestFinished(() => session.end());
  return session;
}

/** Lets everything that waits for this gate continue before the next gate opens, in the same event loop turn. */
async function openAlone(place: ReturnType<typeof gate>): Promise<void> {
  place.open(undefined);
  for (let i = 0; i < 60; i++) await null;
}

/** Resolves when this many of the promises have resolved. */
function reached(count: number, all: readonly Promise<unknown>[]): Promise<void> {
  let settled = 0;
  return new Promise((resolve) => {
    for (const each of all) void each.then(() => ++settled === count && resolve());
  });
}

async function waitingForLocks(database: string): Promise<number> {
  const sessions = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return (await tamper(database, sessions)).length;
}

async function status(database: string, id: string): Promise<unknown> {
  return (await tamper(database, `select status from workflow_status where workflow_uuid = '${id}'`))[0]?.status;
}
