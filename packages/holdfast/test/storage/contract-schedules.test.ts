import { beforeEach, expect, it } from 'vitest';
import type { ScheduledRun, ScheduleRecord, ScheduleSettings } from '../../src/storage/contract/schedules.js';
import { describeStorage } from './contract-support.js';

const settings = (name: string, more: Partial<ScheduleSettings> = {}): ScheduleSettings => ({
  name,
  workflowName: 'report',
  className: null,
  cron: '0 * * * *',
  timezone: null,
  context: '{"json":null}',
  queueName: null,
  catchUp: 'skip',
  catchUpLimit: 100,
  ...more,
});

const run = (workflowId: string, more: Partial<ScheduledRun> = {}): ScheduledRun => ({
  workflowId,
  inputs: '["input"]',
  serialization: 'js_superjson',
  timeoutMs: null,
  ...more,
});

describeStorage('schedules', (store) => {
  beforeEach(async () => {
    for (const table of ['workflow_schedules', 'queues']) await store.sql(`delete from ${store.table(table)}`);
  });

  const create = async (name: string, more: Partial<ScheduleSettings> = {}, appName: string | null = 'app') => {
    const record = await store.storage.schedules.create({ settings: settings(name, more), appName, now: 1000 });
    if (!record) throw new Error(`The name "${name}" is taken.`);
    return record;
  };
  const names = async (appName: string | null = 'app'): Promise<string[]> =>
    (await store.storage.schedules.list(appName)).map(({ name }) => name);
  const get = async (name: string): Promise<ScheduleRecord | undefined> =>
    (await store.storage.schedules.list(null)).find((each) => each.name === name);
  const fire = (schedule: ScheduleRecord, ids: readonly string[], more: { evenIfPaused?: boolean } = {}) =>
    store.storage.schedules.fire({
      schedule,
      runs: ids.map((id) => run(id)),
      evenIfPaused: false,
      now: 5000,
      ...more,
    });

  it('are read back as they were stored', async () => {
    const awkward = settings(`it's; "a" name`, {
      timezone: 'America/New_York',
      context: '"quotes \\" and \u{1f980}"',
      queueName: 'q',
      catchUp: 'one',
      catchUpLimit: 7,
    });
    const record = await store.storage.schedules.create({ settings: awkward, appName: 'app', now: 1000 });
    const { name: _, ...rest } = awkward;
    expect(record).toEqual({
      ...rest,
      name: awkward.name,
      appName: 'app',
      status: 'ACTIVE',
      lastFiredAt: null,
      activeSince: 1000,
    });
    expect(await store.storage.schedules.list('app')).toEqual([record]);
  });

  it('are listed by name: those of the app and those without an app, and all of them for null', async () => {
    await create('theirs', {}, 'other');
    await create('nobodys', {}, null);
    await create('mine');
    expect(await names('app')).toEqual(['mine', 'nobodys']);
    expect(await names('other')).toEqual(['nobodys', 'theirs']);
    expect(await names(null)).toEqual(['mine', 'nobodys', 'theirs']);
  });

  it('are not created under a name that any app has taken', async () => {
    const first = await create('s');
    const again = settings('s', { cron: '1 * * * *' });
    expect(await store.storage.schedules.create({ settings: again, appName: 'app', now: 2000 })).toBeUndefined();
    expect(await store.storage.schedules.create({ settings: again, appName: 'other', now: 2000 })).toBeUndefined();
    expect(await store.storage.schedules.list(null)).toEqual([first]);
  });

  it('are created or changed by apply, which keeps the pause and the last tick', async () => {
    const { schedules } = store.storage;
    await create('s');
    await schedules.markFired({ name: 's', scheduledAt: 3000 });
    await schedules.setStatus({ name: 's', appName: 'app', status: 'PAUSED', now: 1500 });
    const next = [settings('s', { context: '"new"', catchUp: 'all', queueName: 'q' }), settings('t')];
    await schedules.apply({ settings: next, appName: 'app', version: null, now: 2000 });
    expect(await get('s')).toMatchObject({
      ...next[0],
      status: 'PAUSED',
      lastFiredAt: 3000,
      activeSince: 1000,
      appName: 'app',
    });
    expect(await get('t')).toMatchObject({ status: 'ACTIVE', activeSince: 2000 });
  });

  it('begin again with apply and with change only if the cron or the time zone differs', async () => {
    const { schedules } = store.storage;
    const apply = async (more: Partial<ScheduleSettings>, now: number) => {
      await schedules.apply({ settings: [settings('s', more)], appName: 'app', version: null, now });
      return (await get('s'))?.activeSince;
    };
    const change = async (changes: Partial<ScheduleSettings>, now: number) =>
      (await schedules.change({ name: 's', appName: 'app', changes, now }))?.activeSince;
    await create('s');
    expect(
      await apply({ workflowName: 'w', context: '1', queueName: 'q', catchUp: 'one', catchUpLimit: 1 }, 2000),
    ).toBe(1000);
    expect(await apply({ cron: '1 * * * *' }, 3000)).toBe(3000);
    expect(await apply({ cron: '1 * * * *', timezone: 'Europe/Berlin' }, 4000)).toBe(4000);
    expect(await change({ cron: '1 * * * *', timezone: 'Europe/Berlin', context: '2' }, 5000)).toBe(4000);
    expect(await change({ timezone: null }, 6000)).toBe(6000);
    expect(await change({ cron: '2 * * * *' }, 7000)).toBe(7000);
    expect(await change({}, 8000)).toBe(7000);
  });

  it('are changed by apply for the latest version only, but created for any version', async () => {
    const { schedules, versions } = store.storage;
    await versions.register({ name: 'old', appName: 'app', now: 10 });
    await versions.register({ name: 'new', appName: 'app', now: 20 });
    await versions.register({ name: 'of another app', appName: 'other', now: 30 });
    await create('s');
    const apply = async (version: string | null, cron: string) => {
      const wanted = [settings('s', { cron }), settings(`first seen by ${version}`)];
      await schedules.apply({ settings: wanted, appName: 'app', version, now: 2000 });
      return (await get('s'))?.cron;
    };
    expect(await apply('old', '1 * * * *')).toBe('0 * * * *');
    expect(await apply('new', '2 * * * *')).toBe('2 * * * *');
    expect(await apply(null, '3 * * * *')).toBe('3 * * * *');
    expect(await names()).toContain('first seen by old');
  });

  it('of another app do not change, and those without an app go to the app that applies them', async () => {
    const { schedules } = store.storage;
    const theirs = await create('theirs', {}, 'other');
    await create('nobodys', {}, null);
    const wanted = [settings('theirs', { cron: '1 * * * *' }), settings('nobodys')];
    await schedules.apply({ settings: wanted, appName: 'app', version: null, now: 2000 });
    expect(await get('theirs')).toEqual(theirs);
    expect(await get('nobodys')).toMatchObject({ appName: 'app', activeSince: 1000 });
    const key = { name: 'theirs', appName: 'app', now: 2000 };
    expect(await schedules.setStatus({ ...key, status: 'PAUSED' })).toBeUndefined();
    expect(await schedules.change({ ...key, changes: { cron: '2 * * * *' } })).toBeUndefined();
    expect(await schedules.remove(key)).toBe(false);
    expect(await get('theirs')).toEqual(theirs);
    expect(await schedules.remove({ name: 'theirs', appName: null })).toBe(true);
  });

  it('have one row each after ten processes apply them at once in different orders', async () => {
    const all = Array.from({ length: 20 }, (_, i) => settings(`s${i}`));
    const another = await store.another();
    await Promise.all(
      Array.from({ length: 10 }, (_, i) => {
        const rotated = [...all.slice(i), ...all.slice(0, i)];
        const wanted = { settings: rotated, appName: 'app', version: null, now: 1000 + i };
        return (i % 2 ? another : store.storage).schedules.apply(wanted);
      }),
    );
    expect(await names()).toHaveLength(20);
  });

  it('change only in the given fields, even if two callers change different fields at once', async () => {
    const { schedules } = store.storage;
    await create('s', { timezone: 'Europe/Berlin' });
    const change = (changes: Partial<ScheduleSettings>) =>
      schedules.change({ name: 's', appName: 'app', changes, now: 2000 });
    await Promise.all([
      change({ cron: '5 * * * *' }),
      change({ context: '"c"' }),
      change({ queueName: 'q', workflowName: 'w' }),
      change({ catchUp: 'all' }),
      change({ catchUpLimit: 3 }),
    ]);
    const changed = {
      cron: '5 * * * *',
      context: '"c"',
      queueName: 'q',
      workflowName: 'w',
      catchUp: 'all',
      catchUpLimit: 3,
    };
    expect(await get('s')).toMatchObject({ ...changed, timezone: 'Europe/Berlin' });
    expect(await change({ timezone: null, queueName: null, catchUp: 'skip' })).toMatchObject({
      timezone: null,
      queueName: null,
      catchUp: 'skip',
    });
    expect(await schedules.change({ name: 'none', appName: 'app', changes: {}, now: 1 })).toBeUndefined();
  });

  it('begin again when they are resumed, but only if they were paused', async () => {
    const { schedules } = store.storage;
    await create('s');
    const set = async (status: ScheduleRecord['status'], now: number) =>
      schedules.setStatus({ name: 's', appName: 'app', status, now });
    expect(await set('ACTIVE', 2000)).toMatchObject({ status: 'ACTIVE', activeSince: 1000 });
    expect(await set('PAUSED', 3000)).toMatchObject({ status: 'PAUSED', activeSince: 1000 });
    expect(await set('PAUSED', 4000)).toMatchObject({ status: 'PAUSED', activeSince: 1000 });
    expect(await set('ACTIVE', 5000)).toMatchObject({ status: 'ACTIVE', activeSince: 5000 });
    expect(await schedules.setStatus({ name: 'none', appName: 'app', status: 'PAUSED', now: 1 })).toBeUndefined();
  });

  it('record the last tick, which never goes back', async () => {
    const { schedules } = store.storage;
    await create('s');
    const mark = async (scheduledAt: number) => {
      await schedules.markFired({ name: 's', scheduledAt });
      return (await get('s'))?.lastFiredAt;
    };
    expect(await mark(Date.UTC(2026, 0, 9))).toBe(Date.UTC(2026, 0, 9));
    expect(await mark(Date.UTC(2026, 0, 8, 23))).toBe(Date.UTC(2026, 0, 9));
    expect(await mark(Date.UTC(2026, 0, 10))).toBe(Date.UTC(2026, 0, 10));
  });

  it('enqueue runs in the given order, with all the fields of a scheduled run', async () => {
    const schedule = await create('s');
    expect(await fire(schedule, ['b', 'c', 'a'])).toEqual(new Set(['a', 'b', 'c']));
    const rows = await store.sql(
      `select workflow_uuid as id from ${store.table('workflow_status')} order by priority, enqueue_seq`,
    );
    expect(rows.map((row) => row.id)).toEqual(['b', 'c', 'a']);
    const [record] = await store.storage.workflows.get(['a']);
    expect(record).toMatchObject({
      status: 'ENQUEUED',
      name: 'report',
      inputs: '["input"]',
      serialization: 'js_superjson',
      version: null,
      appName: 'app',
      attempts: 0,
      createdAt: 5000,
      queueName: '_dbos_internal_queue',
      priority: 0,
      scheduleName: 's',
      timeoutMs: null,
      executorId: null,
      owner: null,
    });
  });

  it('enqueue on their queue as long as the queue exists', async () => {
    const schedule = await create('s', { queueName: 'q' });
    expect(await fire(schedule, ['a'])).toEqual(new Set());
    await store.sql(`insert into ${store.table('queues')} (queue_id, name) values ('1', 'q')`);
    expect(await fire(schedule, ['a'])).toEqual(new Set(['a']));
    expect((await store.storage.workflows.get(['a']))[0]).toMatchObject({ queueName: 'q' });
  });

  it('do not change a run whose ID is taken, and start the other runs', async () => {
    const { schedules, workflows } = store.storage;
    const schedule = await create('s');
    await fire(schedule, ['a']);
    const runs = [run('a', { inputs: 'other' }), run('b', { timeoutMs: 2 ** 40 })];
    expect(await schedules.fire({ schedule, runs, evenIfPaused: false, now: 6000 })).toEqual(new Set(['b']));
    expect((await workflows.get(['a']))[0]).toMatchObject({ inputs: '["input"]', createdAt: 5000 });
    expect((await workflows.get(['b']))[0]).toMatchObject({ timeoutMs: 2 ** 40 });
    expect(await schedules.taken(['a', 'b', 'c'])).toEqual(new Set(['a', 'b']));
    expect(await schedules.taken([])).toEqual(new Set());
  });

  it('fire nothing after they have changed since they were read, until they are read again', async () => {
    const { schedules } = store.storage;
    const read = await create('s');
    const changes: Partial<ScheduleSettings>[] = [
      { cron: '1 * * * *' },
      { timezone: 'Europe/Berlin' },
      { context: '"other"' },
      { workflowName: 'other' },
    ];
    for (const [i, change] of changes.entries()) {
      await schedules.change({ name: 's', appName: 'app', changes: change, now: 2000 });
      expect(await fire(read, [`a${i}`])).toEqual(new Set());
      await schedules.change({ name: 's', appName: 'app', changes: read, now: 3000 });
      expect(await fire(read, [`a${i}`])).toEqual(new Set([`a${i}`]));
    }
    await schedules.remove({ name: 's', appName: 'app' });
    expect(await fire(read, ['b'], { evenIfPaused: true })).toEqual(new Set());
  });

  it('fire while they are paused only if asked to', async () => {
    const read = await create('s');
    await store.storage.schedules.setStatus({ name: 's', appName: 'app', status: 'PAUSED', now: 2000 });
    expect(await fire(read, ['a'])).toEqual(new Set());
    expect(await fire(read, ['a'], { evenIfPaused: true })).toEqual(new Set(['a']));
  });

  it('start each run once when ten processes fire the same runs at once', async () => {
    const schedule = await create('s');
    const another = await store.another();
    const ids = Array.from({ length: 30 }, (_, i) => `tick ${String(i).padStart(2, '0')}`);
    const fired = await Promise.all(
      Array.from({ length: 10 }, (_, i) => {
        const order = i % 2 ? ids : [...ids].reverse();
        const runs = order.map((id) => run(id));
        const { schedules } = i % 3 ? another : store.storage;
        return schedules.fire({ schedule, runs, evenIfPaused: false, now: 5000 });
      }),
    );
    expect(fired.flatMap((each) => [...each]).sort()).toEqual(ids);
  });

  it('of DBOS are read by their shared columns, including schedules of a class method', async () => {
    const insert = (name: string, more: string, values: string) =>
      store.sql(
        `insert into ${store.table('workflow_schedules')} (schedule_id, schedule_name, workflow_name, schedule, context${more})
         values ('${name}', '${name}', 'report', '0 * * * *', '{"json":null}'${values})`,
      );
    await insert('plain', '', '');
    await insert('filling up', ', automatic_backfill, last_fired_at', `, true, '2026-01-01T00:00:00+00:00'`);
    await insert('of a class', ', workflow_class_name', `, 'Reports'`);
    const [backfilled, ofClass, plain] = await store.storage.schedules.list('app');
    expect(ofClass).toMatchObject({ name: 'of a class', workflowName: 'report', className: 'Reports' });
    expect(plain).toMatchObject({
      name: 'plain',
      appName: null,
      catchUp: 'skip',
      catchUpLimit: null,
      activeSince: null,
    });
    expect(backfilled).toMatchObject({ name: 'filling up', catchUp: 'all', lastFiredAt: Date.UTC(2026, 0, 1) });
    expect(await names(null)).toEqual(['filling up', 'of a class', 'plain']);
    expect(await store.storage.schedules.remove({ name: 'of a class', appName: null })).toBe(true);
  });
});
