import { expect, it } from 'vitest';
import { connect, queue, run, sleep, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure } from '../support/faults.js';
import { rowCounts } from '../support/queues.js';

describeBackends('a batch of starts', (backend) => {
  const q = queue('q');
  const other = workflow('other', async () => 'other');
  const double = workflow('double', async (n: number) => n * 2);
  const inputs = (count: number): [number][] => Array.from({ length: count }, (_, i) => [i]);

  interface Paused extends TestApp {
    readonly database: string;
  }

  /** Launches an app whose paused queue holds a workflow with a deduplication ID. Another workflow has ID `taken`. */
  async function pausedApp(): Promise<Paused> {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [double, other], queues: [q] });
    await t.app.queues.pause('q');
    await double.with({ queue: q, id: 'holder', dedupId: 'held' }).start(0);
    await other.with({ id: 'taken' })();
    return { ...t, database };
  }

  it('returns one handle per list of arguments, in the given order', async () => {
    await backend.testApp({ workflows: [double], queues: [q] });
    const handles = await double.with({ queue: q }).startAll(inputs(50));
    expect(new Set(handles.map(({ id }) => id)).size).toBe(50);
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(inputs(50).map(([n]) => n * 2));
  });

  it('of 5,000 takes one statement', async () => {
    const t = await pausedApp();
    const before = t.statements.length;
    const handles = await double.with({ queue: q }).startAll(inputs(5000));
    const made = t.statements.slice(before).filter((name) => name.startsWith('workflows.'));
    expect(made).toEqual(['workflows.enqueueAll']);
    expect(handles).toHaveLength(5000);
    expect(await rowCounts(t.database)).toMatchObject({ workflows: 5002 });
  });

  it('takes options for all starts, and options for single starts', async () => {
    const t = await pausedApp();
    const attributes = { nested: { list: [1, 'two', null], quote: `"'` } };
    const common = { queue: q, priority: 7, user: 'ada', roles: ['a', 'b'], attributes, timeout: '1m' };
    const each = ([n]: readonly [number], i: number) =>
      n === 1 ? { id: `one ${i}`, priority: 1, delay: '1h', dedupId: 'd', version: 'v9', timeout: null } : {};
    const [zero, one] = await double.with(common).startAll(inputs(2), each);
    const shared = { user: 'ada', roles: ['a', 'b'], attributes, queueName: 'q', attempts: 0 };
    expect(await zero?.status()).toMatchObject({
      ...shared,
      status: 'ENQUEUED',
      priority: 7,
      version: t.app.version,
      timeoutMs: 60_000,
      dedupId: undefined,
    });
    expect(await one?.status()).toMatchObject({
      ...shared,
      workflowId: 'one 1',
      status: 'DELAYED',
      delayUntil: t.clock.now() + 3_600_000,
      priority: 1,
      dedupId: 'd',
      version: 'v9',
      timeoutMs: undefined,
      input: [1],
    });
  });

  it('is all or nothing: if one start cannot be enqueued, no start is', async () => {
    const t = await pausedApp();
    const last = (options: object) => (_: unknown, i: number) => (i === 99 ? options : {});
    const cases: [object, object][] = [
      [{ dedupId: 'held' }, { code: 'QUEUE_DUPLICATE', details: { workflowId: 'holder' } }],
      [{ id: 'taken' }, { code: 'WORKFLOW_CONFLICT', details: { existing: 'other' } }],
      [{ queue: 'unknown' }, { code: 'UNKNOWN_QUEUE' }],
      [{ partition: 'a' }, { code: 'INVALID_OPTION' }],
      [{ priority: -1 }, { code: 'INVALID_OPTION' }],
      [{ attributes: { no: () => {} } }, { code: 'UNSERIALIZABLE' }],
    ];
    const before = await rowCounts(t.database);
    for (const [options, expected] of cases) {
      const error = await failure(double.with({ queue: q }).startAll(inputs(100), last(options)));
      expect(error, JSON.stringify(options)).toMatchObject(expected);
      expect(await rowCounts(t.database)).toEqual(before);
    }
  });

  it('refuses an ID or a deduplication ID that two of its starts share', async () => {
    const t = await pausedApp();
    const before = await rowCounts(t.database);
    for (const option of ['id', 'dedupId']) {
      const error = await failure(double.with({ queue: q }).startAll(inputs(3), (_, i) => ({ [option]: `${i % 2}` })));
      expect(error).toMatchObject({ code: 'INVALID_OPTION' });
      expect(error.message).toMatch(new RegExp(`item 2: "${option}" must be different for each item`));
    }
    expect(await rowCounts(t.database)).toEqual(before);
  });

  it('returns the holder of a deduplication ID to starts with return-existing, and enqueues the rest', async () => {
    const t = await pausedApp();
    const handles = await double.with({ queue: q }).startAll(inputs(3), (_, i) => ({
      dedupId: i === 1 ? 'held' : `free ${i}`,
      onDuplicate: 'return-existing',
    }));
    expect(handles[1]?.id).toBe('holder');
    await t.app.queues.resume('q');
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([0, 0, 4]);
    expect(await rowCounts(t.database)).toMatchObject({ workflows: 4 });
  });

  it('returns the workflows of an earlier batch with the same IDs', async () => {
    const t = await pausedApp();
    const start = (count: number) => double.with({ queue: q }).startAll(inputs(count), (_, i) => ({ id: `id ${i}` }));
    const ids = (await start(10)).map(({ id }) => id);
    expect((await start(12)).map(({ id }) => id)).toEqual([...ids, 'id 10', 'id 11']);
    expect(await rowCounts(t.database)).toMatchObject({ workflows: 14 });
  });

  it('enqueues nothing if it is empty, and is refused if it is not a list', async () => {
    const t = await pausedApp();
    const before = t.statements.length;
    expect(await double.with({ queue: q }).startAll([])).toEqual([]);
    expect(t.statements.slice(before).filter((name) => name.startsWith('workflows.'))).toEqual([]);
    for (const bad of [undefined, null, 7, 'ab', { length: 1 }, [1, 2], [[1], 2]]) {
      const error = await failure(double.with({ queue: q }).startAll(bad as never));
      expect(error, String(bad)).toMatchObject({ code: 'INVALID_OPTION' });
      expect(error.message).toMatch(/"inputs(\[\d])?" must be a list/);
    }
    for (const each of [7, 'id', {}, null]) {
      const error = await failure(double.with({ queue: q }).startAll(inputs(1), each as never));
      expect(error, String(each)).toMatchObject({ code: 'INVALID_OPTION' });
    }
    expect(await failure(double.startAll(inputs(100_001)))).toMatchObject({ code: 'INVALID_OPTION' });
  });

  it('is refused when its options, or the options of one start, are a promise or a Map', async () => {
    const t = await pausedApp();
    const client = await connect({ database: t.database, name: 'test', logger: silent });
    const before = await rowCounts(t.database);
    const given = [Promise.resolve({ id: 'one' }), new Map([['id', 'one']]), new Set(['one']), ['one'], 7, 'one'];
    for (const options of given as never[]) {
      const calls = [
        () => double.with({ queue: q }).startAll(inputs(2), (_, i) => (i === 1 ? options : {})),
        () => client.startAll('double', { queue: 'q' }, inputs(2), () => options),
        () => client.startAll('double', options, inputs(2)),
      ];
      for (const call of calls) {
        expect(await failure(call()), `${call} ${options}`).toMatchObject({ code: 'INVALID_OPTION' });
      }
    }
    const late = (async () => ({ id: 'one' })) as never;
    expect((await failure(double.startAll(inputs(1), late))).message).toMatch(/it was given a promise: await it first/);
    await client.close();
    expect(await rowCounts(t.database)).toEqual(before);
  });

  it('without a queue is run by any process of the app', async () => {
    await backend.testApp({ workflows: [double] });
    const handles = await double.startAll(inputs(3));
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([0, 2, 4]);
  });

  it('inside a workflow starts each child once, and the same children after a crash', async () => {
    const children: number[] = [];
    const child = workflow('child', (n: number) =>
      run('once', () => {
        children.push(n);
        return n * 2;
      }),
    );
    const parent = workflow('parent', async () => {
      const handles = await child.with({ queue: q }).startAll(inputs(20));
      await sleep('1h');
      const results = await Promise.all(handles.map((handle) => handle.result()));
      return [handles.map(({ id }) => id), results];
    });
    const t = await backend.testApp({ workflows: [parent, child], queues: [q] });
    await parent.with({ id: 'p' }).start();
    await t.clock.advance('1m');
    expect(await t.app.workflows.list({ parentWorkflowId: 'p' })).toHaveLength(20);
    const again = await t.restart();
    const [ids, results] = (await again.clock.runUntil(again.app.workflows.handle('p').result())) as unknown[][];
    expect(ids).toEqual(inputs(20).map(([i]) => `p-${i}`));
    expect(results).toEqual(inputs(20).map(([i]) => i * 2));
    expect(children.sort((a, b) => a - b)).toEqual(inputs(20).flat());
  });

  it.each(['before-send', 'after-apply', 'after-reply'] as const)(
    'of 1,000 is stored completely or not at all when its process crashes %s, and can be repeated',
    async (phase) => {
      const ids = (_: readonly unknown[], index: number) => ({ id: `batch ${index}` });
      const batch = () => double.with({ queue: q }).startAll(inputs(1000), ids);
      const rehearsal = await backend.testApp({ workflows: [double], queues: [q] });
      await batch();
      const statement = rehearsal.statements.indexOf('workflows.enqueueAll') + 1;
      await rehearsal.stop();

      const database = await backend.newDatabase();
      const t = await backend.testApp({ database, workflows: [double], queues: [q], crashAt: { statement, phase } });
      batch().catch(() => {});
      await t.crashed;
      const { workflows } = await rowCounts(database);
      expect(workflows).toBe(phase === 'before-send' ? 0 : 1000);
      await t.restart();
      const handles = await batch();
      expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(inputs(1000).map(([n]) => n * 2));
      expect(await rowCounts(database)).toMatchObject({ workflows: 1000 });
    },
  );
});
