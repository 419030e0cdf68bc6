import pg from 'pg';
import { beforeEach, expect, it } from 'vitest';
import type { NewExecutor } from '../../src/storage/contract/executors.js';
import { describeStorage, first, newWorkflow, type Store, writer } from './contract-support.js';

const executor = (incarnation: string, more: Partial<NewExecutor> = {}): NewExecutor => ({
  incarnation,
  executorId: writer.executorId,
  appName: writer.appName,
  version: 'v1',
  host: 'host',
  pid: 42,
  processStart: 'boot-1@space',
  ttlMs: 30_000,
  lockKey: null,
  listens: null,
  ...more,
});

describeStorage('executors', (store) => {
  beforeEach(() => store.sql(`delete from ${store.table('executors')}`));
  const list = () => store.storage.executors.list(writer.appName);
  const incarnations = async (): Promise<string[]> => (await list()).map((each) => each.incarnation);

  it('are listed as they joined, with the time of the database', async () => {
    const { executors } = store.storage;
    const before = await store.storage.now();
    await executors.join(executor('a'));
    const after = await store.storage.now();
    const [found] = await list();
    expect(found).toEqual({
      ...executor('a'),
      startedAt: expect.any(Number),
      heartbeatAt: expect.any(Number),
      beats: expect.any(Number),
      present: null,
    });
    for (const at of [found?.startedAt, found?.heartbeatAt]) {
      expect(at).toBeGreaterThanOrEqual(Math.floor(before) - 1);
      expect(at).toBeLessThanOrEqual(Math.ceil(after) + 1);
    }
  });

  it('are listed for one application only', async () => {
    const { executors } = store.storage;
    await executors.join(executor('a'));
    await executors.join(executor('b', { appName: 'another' }));
    expect(await incarnations()).toEqual(['a']);
    expect((await executors.list('another')).map((each) => each.incarnation)).toEqual(['b']);
  });

  it('are distinguished by incarnation under the same executor ID', async () => {
    const { executors } = store.storage;
    await executors.join(executor('a'));
    await executors.join(executor('b'));
    expect((await incarnations()).sort()).toEqual(['a', 'b']);
  });

  it('have their heartbeats counted even if the clock goes back', async () => {
    const { executors } = store.storage;
    await executors.join(executor('a'));
    const [joined] = await list();
    await store.sql(`update ${store.table('executors')} set heartbeat_at = heartbeat_at + 3600000`);
    expect(await executors.beat('a')).toMatchObject({ takeovers: 0 });
    const [found] = await list();
    expect(found?.beats).toBe((joined?.beats ?? 0) + 1);
    expect(found?.heartbeatAt).toBeLessThan((joined?.heartbeatAt ?? 0) + 3_600_000);
    expect(found?.startedAt).toBe(joined?.startedAt);
  });

  it('have a heartbeat ignored if they know a higher number, so that every answer shows it', async () => {
    const { executors } = store.storage;
    expect([await executors.join(executor('a')), await executors.join(executor('a'))]).toEqual([1, 2]);
    expect(await executors.beat('a', { known: 2 })).toMatchObject({ beats: 3 });
    for (let i = 0; i < 3; i++) expect(await executors.beat('a', { known: 4 })).toMatchObject({ beats: 3 });
    expect(await executors.beat('a', { known: 3 })).toMatchObject({ beats: 4 });
  });

  it('change with a heartbeat only the given fields', async () => {
    const { executors } = store.storage;
    await executors.join(executor('a', { lockKey: '7' }));
    const facts = async () => {
      const [found] = await list();
      return [found?.lockKey, found?.ttlMs];
    };
    await executors.beat('a');
    expect(await facts()).toEqual(['7', 30_000]);
    await executors.beat('a', { ttlMs: 5_000 });
    expect(await facts()).toEqual(['7', 5_000]);
    await executors.beat('a', { lockKey: null });
    expect(await facts()).toEqual([null, 5_000]);
    await executors.beat('a', { lockKey: '8', ttlMs: 6_000 });
    expect(await facts()).toEqual(['8', 6_000]);
  });

  it('learn from a heartbeat that their row is gone, and can join again', async () => {
    const { executors } = store.storage;
    expect(await executors.beat('a')).toBeUndefined();
    await executors.join(executor('a'));
    await executors.forget([{ incarnation: 'a', beats: 1 }]);
    expect(await executors.beat('a')).toBeUndefined();
    expect(await executors.takeovers('a')).toBeUndefined();
    expect(await list()).toEqual([]);
    await executors.join(executor('a'));
    expect(await executors.beat('a')).toMatchObject({ takeovers: 0 });
  });

  it('learn from a heartbeat how often work was taken from them', async () => {
    const { executors } = store.storage;
    for (const each of ['a', 'b', 'c']) await executors.join(executor(each));
    await executors.recordTakeover([{ executorId: 'anything', incarnation: 'a' }]);
    const [record] = await list();
    await executors.recordTakeover([{ executorId: record?.executorId ?? '', incarnation: null }]);
    expect(await executors.takeovers('a')).toBe(2);
    expect((await list()).map(({ beats }) => beats)).toEqual([1, 1, 1]);
    const told = await Promise.all(['a', 'b', 'c'].map((each) => executors.beat(each)));
    expect(told[0]).toMatchObject({ takeovers: 2 });
    expect(await executors.beat('a')).toMatchObject({ takeovers: 2 });
  });

  it('count a second join as a heartbeat', async () => {
    const { executors } = store.storage;
    await executors.join(executor('a'));
    const [first] = await list();
    await executors.join(executor('a', { ttlMs: 9_000 }));
    const [second, ...more] = await list();
    expect(more).toEqual([]);
    expect(second).toMatchObject({ ttlMs: 9_000, startedAt: first?.startedAt, beats: (first?.beats ?? 0) + 1 });
  });

  it('are removed when they leave, and others stay', async () => {
    const { executors } = store.storage;
    for (const each of ['a', 'b']) await executors.join(executor(each));
    await executors.leave('a');
    await executors.leave('never there');
    expect(await incarnations()).toEqual(['b']);
  });

  it('are removed as dead if they own nothing PENDING, and kept otherwise', async () => {
    const { executors, workflows } = store.storage;
    for (const each of ['a', 'b', 'c']) await executors.join(executor(each));
    const row = { ...newWorkflow('w'), owner: 'b.1', version: 'v1' };
    await workflows.insertMany(writer, [row]);
    await executors.forget([]);
    await executors.forget(['a', 'b', 'never there'].map((incarnation) => ({ incarnation, beats: 1 })));
    expect((await incarnations()).sort()).toEqual(['b', 'c']);
    await executors.leave('b');
    expect((await incarnations()).sort()).toEqual(['b', 'c']);
    const ending = { output: null, error: null, underWay: null, completedAt: 5, ...first };
    await workflows.finishMany([{ workflowId: 'w', owner: 'b.1', status: 'SUCCESS', ...ending }]);
    await executors.forget([{ incarnation: 'b', beats: 1 }]);
    expect(await incarnations()).toEqual(['c']);
  });

  it('are not removed after a heartbeat since they were considered dead', async () => {
    const { executors } = store.storage;
    for (const each of ['a', 'b']) await executors.join(executor(each));
    await executors.beat('b');
    await executors.forget(['a', 'b'].map((incarnation) => ({ incarnation, beats: 1 })));
    expect(await incarnations()).toEqual(['b']);
  });
});

describeStorage(
  'the locks of executors',
  (store) => {
    beforeEach(() => store.sql(`delete from ${store.table('executors')}`));
    const present = async (): Promise<boolean | null | undefined> =>
      (await store.storage.executors.list(writer.appName))[0]?.present;

    it('show as long as the listening session lives', async () => {
      const { executors } = store.storage;
      await executors.join(executor('a', { lockKey: '77' }));
      expect(await present()).toBe(false);
      const states: boolean[] = [];
      const presence = { key: '77', held: (isHeld: boolean) => states.push(isHeld) };
      const listening = store.storage.listen({ received: () => {}, state: () => {}, presence });
      await listening.ready;
      expect([await present(), states]).toEqual([true, [true]]);
      await listening.stop();
      await until(async () => (await present()) === false);
      expect(states).toEqual([true, false]);
    });

    it('are not confused with other locks of the same number', async () => {
      await store.storage.executors.join(executor('a', { lockKey: '78' }));
      await withClient(store, async (client) => {
        await client.query('select pg_advisory_lock(78), pg_advisory_lock(1, 78), pg_advisory_lock(78, 78)');
        expect(await present()).toBe(false);
      });
    });
  },
  ['postgres'],
);

async function withClient(store: Store, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client(store.url);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}
