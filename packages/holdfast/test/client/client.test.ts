import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { type Client, type ClientOptions, connect, context, queue, run, sleep, workflow } from '../../src/index.js';
import type { TestApp, TestAppOptions } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, recordingLogger, tamper } from '../support/faults.js';
import { rowCounts, Stage } from '../support/queues.js';

describeBackends('a client', (backend) => {
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });

  async function connected(options: ClientOptions): Promise<Client> {
    const client = await connect({ logger: silent, ...options });
    clients.push(client);
    return client;
  }

  async function withApp(options: TestAppOptions): Promise<[TestApp, Client, string]> {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ version: 'v', ...options, database });
    return [t, await connected({ database, name: 'test' }), database];
  }

  it('retries a failed workflow, and is not recorded as its executor', async () => {
    let isBroken = true;
    const wf = workflow('wf', () => run('a', () => Promise[isBroken ? 'reject' : 'resolve']('a')));
    const [, client] = await withApp({ workflows: [wf] });
    const handle = await client.start('wf', {});
    expect(await handle.result().catch((error: unknown) => `failed: ${error}`)).toBe('failed: a');
    isBroken = false;
    expect(await (await client.workflows.retry(handle.id)).result()).toBe('a');
    expect((await handle.status()).retries).toMatchObject([{ executorId: undefined, error: 'a' }]);
  });

  it('starts a workflow by its name and gets its result, with or without a queue', async () => {
    const greet = workflow('greet', async (name: string, times: number) => [`Hello ${name}`, times, new Date(0)]);
    const [t, client] = await withApp({ workflows: [greet], queues: [queue('q')] });
    for (const options of [{}, { queue: 'q' }, { queue: 'q', id: 'mine', priority: 3, user: 'ada' }]) {
      const handle = await client.start('greet', options, 'Ada', 2);
      expect(await handle.result()).toEqual(['Hello Ada', 2, new Date(0)]);
    }
    expect(await t.app.workflows.get('mine')).toMatchObject({
      priority: 3,
      user: 'ada',
      version: 'v',
      appName: 'test',
    });
    expect(await client.workflows.list({ status: 'SUCCESS' })).toHaveLength(3);
  });

  it('without a name starts work for the app that owns the queue, or for any app if there is no queue', async () => {
    const database = await backend.newDatabase();
    const wf = workflow('wf', async () => 'ran');
    await backend.testApp({ database, name: 'shop', workflows: [wf], queues: [queue('q')] });
    const client = await connected({ database });
    const handles = [await client.start('wf', { queue: 'q' }), await client.start('wf', {})];
    for (const handle of handles) {
      expect(await handle.result()).toBe('ran');
      expect(await handle.status()).toMatchObject({ appName: 'shop' });
    }
  });

  it('starts many workflows at once, all or none', async () => {
    const double = workflow('double', async (n: number) => n * 2);
    const [, client, database] = await withApp({ workflows: [double], queues: [queue('q')] });
    const handles = await client.startAll<number>('double', { queue: 'q' }, [[1], [2], [3]], (_, i) => ({
      id: `${i}`,
    }));
    expect(handles.map(({ id }) => id)).toEqual(['0', '1', '2']);
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([2, 4, 6]);
    const before = await rowCounts(database);
    const held = client.startAll('other', { queue: 'q' }, [[1], [2]], (_, i) => ({ id: `${i + 2}` }));
    expect(await failure(held)).toMatchObject({ code: 'WORKFLOW_CONFLICT' });
    expect(await rowCounts(database)).toEqual(before);
  });

  it('refuses a start without an ID in a workflow function, where every replay would start another', async () => {
    const wf = workflow('wf', async () => 1);
    const parent = workflow('parent', async () => {
      const codes: unknown[] = [];
      for (const client of [own, foreign]) {
        const late = client.start('wf', { queue: 'q', dedupId: 'd' });
        const starts = [
          () => client.start('wf', { queue: 'q' }),
          () => client.startAll('wf', { queue: 'q' }, [[], []], (_, i) => (i === 0 ? { id: 'only one has' } : {})),
          () => late,
        ];
        await sleep('1s');
        for (const start of starts) codes.push((await failure(start())).code);
      }
      return codes;
    });
    const [t, own, database] = await withApp({ workflows: [wf, parent], queues: [queue('q')] });
    const elsewhere = await backend.newDatabase();
    await backend.testApp({ database: elsewhere, name: 'other', queues: [queue('q')] });
    const foreign = await connected({ database: elsewhere, name: 'other' });
    const before = await rowCounts(elsewhere);
    expect(await t.clock.runUntil(parent())).toEqual(Array(6).fill('UNSUPPORTED_CALL'));
    expect(await rowCounts(database)).toMatchObject({ workflows: 1 });
    expect(await rowCounts(elsewhere)).toEqual(before);
    const direct = workflow('direct', async () => own.start('wf', { queue: 'q' }));
    t.app.register(direct);
    expect(await failure(direct())).toMatchObject({ message: expect.stringContaining('Call it in a step, or give') });
  });

  it('starts by ID in a workflow function, and without an ID in a step, once per attempt of the step', async () => {
    const wf = workflow('wf', async (n: number) => n);
    const parent = workflow('parent', async () => {
      const one = await client.start('wf', { id: 'one' }, 1);
      const all = await client.startAll('wf', {}, [[2], [3]], (_, i) => ({ id: `all ${i}` }));
      const inStep = await run('starts', async () => {
        const handles = await client.startAll('wf', {}, [[4]]);
        return [(await client.start('wf', {}, 5)).id, handles[0]?.id];
      });
      expect(await client.startAll('wf', {}, [])).toEqual([]);
      await sleep('1h');
      return [one.id, ...all.map(({ id }) => id), ...inStep];
    });
    const [t, client, database] = await withApp({ workflows: [wf, parent] });
    const { id } = await parent.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    const ids = await again.clock.runUntil(again.app.workflows.handle(id).result());
    expect(ids).toEqual(['one', 'all 0', 'all 1', expect.any(String), expect.any(String)]);
    expect(await rowCounts(database)).toMatchObject({ workflows: 6 });
  });

  it('deduplicates, delays and debounces like an app', async () => {
    const stage = new Stage();
    const [t, client] = await withApp({ workflows: [stage.wf], queues: [queue('q', { concurrency: 1 })] });
    await t.app.queues.pause('q');
    const first = await client.start('staged', { queue: 'q', dedupId: 'd' }, 'first');
    expect(await failure(client.start('staged', { queue: 'q', dedupId: 'd' }, 'second'))).toMatchObject({
      code: 'QUEUE_DUPLICATE',
    });
    const existing = { queue: 'q', dedupId: 'd', onDuplicate: 'return-existing' as const };
    expect((await client.start('staged', existing, 'second')).id).toBe(first.id);
    const delayed = await client.start('staged', { queue: 'q', delay: '1h' }, 'delayed');
    expect(await delayed.status()).toMatchObject({ status: 'DELAYED' });
    expect(await client.workflows.setDelay(delayed.id, '2h')).toBe(true);
    expect(await client.workflows.setPriority(delayed.id, 4)).toBe(true);
    expect(await delayed.status()).toMatchObject({ priority: 4 });
  });

  it('cancels and resumes workflows of an app, which notices at once', async () => {
    const stage = new Stage();
    const [t, client] = await withApp({ workflows: [stage.wf], queues: [queue('q', { concurrency: 1 })] });
    const first = await client.start('staged', { queue: 'q' }, 'first');
    await client.start('staged', { queue: 'q' }, 'second');
    await stage.begins(1);
    await first.cancel();
    await stage.begins(2);
    expect(stage.begun).toEqual(['first', 'second']);
    expect(await failure(first.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    await client.workflows.resume(first.id);
    stage.end();
    await stage.begins(3);
    stage.end();
    expect(await client.workflows.handle(first.id).result()).toBe('first');
    expect(await client.workflows.steps(first.id)).toMatchObject([{ name: 'work' }]);
    expect(await t.app.workflows.list()).toHaveLength(2);
  });

  it('shows and manages queues and versions', async () => {
    const [t, client] = await withApp({ queues: [queue('q', { concurrency: 1 })] });
    await client.queues.update('q', { concurrency: 7 });
    await client.queues.pause('q');
    expect(await t.app.queues.get('q')).toMatchObject({ concurrency: 7, paused: true });
    await client.queues.register('r', { workerConcurrency: 2 });
    expect((await t.app.queues.list()).map(({ name, appName }) => [name, appName])).toEqual([
      ['q', 'test'],
      ['r', 'test'],
    ]);
    await client.queues.delete('r');
    const next = await t.restart({ version: 'w' });
    expect((await client.versions.list()).map(({ name }) => name)).toEqual(['w', 'v']);
    await client.versions.setLatest('v');
    expect(await next.app.versions.latest()).toMatchObject({ name: 'v' });
  });

  it('never runs a workflow, not even one that any process may run', async () => {
    const database = await backend.newDatabase();
    const client = await connected({ database, name: 'test' });
    const ran: string[] = [];
    const handle = await client.start('wf', {});
    await client.queues.register('q');
    await client.start('wf', { queue: 'q' });
    const wf = workflow('wf', async () => void ran.push(context().executorId));
    expect(await failure(wf.with({ app: client })())).toMatchObject({ code: 'NOT_LAUNCHED' });
    expect(await handle.status()).toMatchObject({ status: 'ENQUEUED', attempts: 0, executorId: undefined });
    await backend.testApp({ database, workflows: [wf], executorId: 'worker' });
    await expect.poll(() => ran).toEqual(['worker', 'worker']);
  });

  it('refuses calls after it is closed, and ends the waits that are pending', async () => {
    const stage = new Stage();
    const [, client] = await withApp({ workflows: [stage.wf], queues: [queue('q')] });
    const handle = await client.start('staged', { queue: 'q' }, 'goes on');
    const waiting = failure(handle.result());
    await stage.begins(1);
    await Promise.all([client.close(), client.close()]);
    expect(await waiting).toMatchObject({ code: 'APP_CLOSED' });
    const calls = [
      () => client.start('staged', { queue: 'q' }, 'x'),
      () => client.startAll('staged', { queue: 'q' }, [['x']]),
      () => handle.result(),
      () => handle.status(),
      () => client.workflows.list(),
      () => client.queues.list(),
    ];
    for (const call of calls) expect(await failure(call()), call.toString()).toMatchObject({ code: 'APP_CLOSED' });
    expect(stage.now()).toBe(1);
  });

  it('announces what it enqueued before it closes, so the work starts without a poll', async () => {
    const stage = new Stage();
    const [, client] = await withApp({ workflows: [stage.wf], queues: [queue('q')] });
    await client.start('staged', { queue: 'q' }, 'announced');
    await client.close();
    await stage.begins(1);
  });

  it('never changes the schema: an empty database stays as it is', async () => {
    const database = await backend.emptyDatabase();
    const error = await failure(connect({ database, logger: silent }));
    expect(error).toMatchObject({ code: 'MIGRATION_REQUIRED' });
    const catalog =
      backend.name === 'sqlite'
        ? 'select name from sqlite_master'
        : `select table_name from information_schema.tables where table_schema = 'dbos'`;
    expect(await tamper(database, catalog)).toEqual([]);
  });

  it('is refused for a database that does not exist, and does not create it', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-client-'));
    const url = new URL(await backend.emptyDatabase());
    url.pathname = '/no_such_database';
    const file = join(folder, 'missing.sqlite');
    const database = backend.name === 'sqlite' ? `sqlite:${file}` : url.toString();
    const code = backend.name === 'sqlite' ? 'MIGRATION_REQUIRED' : 'DATABASE_MISSING';
    const error = await failure(connect({ database, logger: silent }));
    expect(error).toMatchObject({ code });
    expect(error.message).toMatch(/does not exist.*call migrate\(\{ database \}\)/i);
    expect(error.message).not.toContain('dbos_migrations');
    expect(existsSync(file)).toBe(false);
    if (backend.name === 'postgres') {
      const names = await tamper(await backend.emptyDatabase(), 'select datname from pg_database');
      expect(names).not.toContainEqual({ datname: 'no_such_database' });
    }
    await rm(folder, { recursive: true });
  });

  it('refuses unknown and invalid options', async () => {
    const database = await backend.newDatabase();
    const cases: [unknown, string][] = [
      [{ databse: database }, 'INVALID_OPTION'],
      [{ database, version: 'v' }, 'INVALID_OPTION'],
      [{ database, logger: {} }, 'INVALID_OPTION'],
      [{ database, name: '' }, 'INVALID_NAME'],
      [{ database, name: 7 }, 'INVALID_NAME'],
      [{ database, schema: 'a'.repeat(64) }, 'INVALID_OPTION'],
      [{ database: 'mysql://localhost/x' }, 'DATABASE_URL_INVALID'],
      [{ database: '' }, 'DATABASE_URL_INVALID'],
      [{}, 'DATABASE_URL_INVALID'],
      [undefined, 'INVALID_OPTION'],
      [database, 'INVALID_OPTION'],
    ];
    for (const [options, code] of cases) {
      expect(await failure(connect(options as never)), JSON.stringify(options)).toMatchObject({ code });
    }
  });

  it('refuses an invalid start, and writes nothing', async () => {
    const [, client, database] = await withApp({ queues: [queue('q')] });
    const before = await rowCounts(database);
    const cases: [() => Promise<unknown>, string][] = [
      [() => client.start('', {}), 'INVALID_NAME'],
      [() => client.start(undefined as never, {}), 'INVALID_NAME'],
      [() => client.start('wf', null as never), 'INVALID_OPTION'],
      [() => client.start('wf', { queu: 'q' } as never), 'INVALID_OPTION'],
      [() => client.start('wf', { queue: 'unknown' }), 'UNKNOWN_QUEUE'],
      [() => client.start('wf', { queue: 'q', partition: 'a' }), 'INVALID_OPTION'],
      [() => client.start('wf', { queue: 'q' }, () => {}), 'UNSERIALIZABLE'],
      [() => client.startAll('wf', { queue: 'q' }, [1] as never), 'INVALID_OPTION'],
      [() => client.startAll('', { queue: 'q' }, [[1]]), 'INVALID_NAME'],
    ];
    for (const [call, code] of cases) expect(await failure(call()), call.toString()).toMatchObject({ code });
    expect(await rowCounts(database)).toEqual(before);
  });

  it('logs nothing in ordinary use', async () => {
    const logger = recordingLogger();
    const wf = workflow('wf', async () => 1);
    const [, , database] = await withApp({ workflows: [wf], queues: [queue('q')] });
    const client = await connected({ database, logger });
    await (await client.start('wf', { queue: 'q' })).result();
    await client.close();
    expect(logger.lines).toEqual([]);
  });
});
