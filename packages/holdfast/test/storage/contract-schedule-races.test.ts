import pg from 'pg';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import type { ScheduleRecord } from '../../src/storage/contract/schedules.js';
import { describeStorage, type Store } from './contract-support.js';

/**
 * A tick and a concurrent change of its schedule on Postgres, step by step: the first transaction stays open while the
 * statement under test waits for it, and then commits. SQLite has one writer at a time and none of these.
 */
describeStorage('a schedule with a concurrent tick and change', suite, ['postgres']);

function suite(store: Store): void {
  const table = store.table('workflow_schedules');
  let schedule: ScheduleRecord;

  beforeEach(async () => {
    await store.sql(`delete from ${table}`);
    const settings = { name: 's', workflowName: 'w', className: null, cron: '* * * * *', timezone: null };
    const created = await store.storage.schedules.create({
      settings: { ...settings, context: '1', queueName: null, catchUp: 'skip', catchUpLimit: 100 },
      appName: 'app',
      now: 1000,
    });
    schedule = created as ScheduleRecord;
  });

  const fire = () => {
    const runs = [{ workflowId: 'tick', inputs: '[]', serialization: 'js_superjson', timeoutMs: null }];
    return store.storage.schedules.fire({ schedule, runs, evenIfPaused: false, now: 2000 });
  };

  it.each([
    ['a deletion', `delete from ${table}`],
    ['another cron', `update ${table} set schedule = '1 * * * *'`],
    ['another time zone', `update ${table} set cron_timezone = 'Europe/Berlin'`],
    ['another context', `update ${table} set context = '2'`],
    ['another workflow', `update ${table} set workflow_name = 'x'`],
    ['a pause', `update ${table} set status = 'PAUSED'`],
  ])('starts nothing for a tick that waits for %s', async (_, change) => {
    const first = await transaction(store);
    await first.query(change);
    const fired = fire();
    await waiting(store, 'with enqueue_turn');
    await first.query('commit');
    expect(await fired).toEqual(new Set());
    expect(await store.storage.workflows.get(['tick'])).toEqual([]);
  });

  it('starts a tick that waits for the record of the last tick', async () => {
    const first = await transaction(store);
    await first.query(`update ${table} set last_fired_at = '2026-01-01T00:00:00.000Z'`);
    const fired = fire();
    await waiting(store, 'with enqueue_turn');
    await first.query('commit');
    expect(await fired).toEqual(new Set(['tick']));
  });

  it.each(['remove', 'change', 'setStatus'] as const)('%s waits for a tick that is being fired', async (operation) => {
    const { schedules } = store.storage;
    const key = { name: 's', appName: 'app', now: 3000 };
    const operations = {
      remove: () => schedules.remove(key),
      change: () => schedules.change({ ...key, changes: { cron: '1 * * * *' } }),
      setStatus: () => schedules.setStatus({ ...key, status: 'PAUSED' }),
    };
    const tick = await transaction(store);
    await tick.query(`select 1 from ${table} where schedule_name = 's' for share`);
    const done = operations[operation]();
    await waiting(store, 'workflow_schedules');
    await tick.query('commit');
    expect(await done).toBeTruthy();
  });

  it('fires concurrent ticks without making them wait for each other', async () => {
    const other = await transaction(store);
    await other.query(`select 1 from ${table} where schedule_name = 's' for share`);
    expect(await fire()).toEqual(new Set(['tick']));
    await other.query('rollback');
  });
}

async function transaction(store: Store): Promise<pg.Client> {
  const client = new pg.Client(store.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('begin');
  return client;
}

/** Resolves when a statement with this piece of text waits for a lock. */
async function waiting(store: Store, text: string): Promise<void> {
  const blocked = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()
    and query like '%${text}%'`;
  await expect.poll(() => store.sql(blocked)).toHaveLength(1);
}
