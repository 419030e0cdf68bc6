import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import {
  dequeue,
  describeStorage,
  idsOf,
  newClaim,
  newStep,
  type Store,
  start,
  statuses,
  takeOver,
} from './contract-support.js';

/**
 * Interleavings of two transactions on Postgres, step by step: the other transaction is open while the statement
 * under test waits for it, and commits then. SQLite has one writer at a time and none of these.
 */
describeStorage('two concurrent transactions', suite, ['postgres']);

function suite(store: Store): void {
  const table = store.table('workflow_status');
  const claim = () => takeOver(store.storage, newClaim());

  it('a cancel finds a child that its parent committed after the cancel began to look for children', async () => {
    await start(store, 'root');
    const parent = await transaction(store);
    await parent.query(`select 1 from ${table} where workflow_uuid = 'root' for share`);
    const cancelled = store.storage.workflows.cancel({ workflowIds: ['root'], reason: null, now: 2000 });
    await waiting(store, "status = ''CANCELLED''");
    await parent.query(
      `insert into ${table} (workflow_uuid, status, name, parent_workflow_id, owner_xid, created_at, updated_at)
       values ('child', 'PENDING', 'greet', 'root', 'x', 1, 1)`,
    );
    await parent.query('commit');
    expect(await idsOf(cancelled)).toEqual(['child', 'root']);
    expect(await statuses(store)).toEqual({ child: 'CANCELLED', root: 'CANCELLED' });
  });

  it('a claim waits for the last checkpoint of a dying owner, and sees the checkpoint', async () => {
    await start(store, 'a');
    const owner = await transaction(store);
    await owner.query(`select 1 from ${table} where workflow_uuid = 'a' for share`);
    const claimed = claim();
    await waiting(store, 'with said');
    await owner.query(
      `insert into ${store.table('operation_outputs')} (workflow_uuid, function_id, function_name) values ('a', 0, 'x')`,
    );
    await owner.query('commit');
    expect(await claimed).toMatchObject([{ workflowId: 'a', owner: 'claim', attempts: 2 }]);
    expect(await store.storage.steps.history(['a'])).toMatchObject([{ stepNumber: 0 }]);
  });

  it('a checkpoint that waits for a claim is fenced by it', async () => {
    await start(store, 'a', 'b');
    const claimer = await transaction(store);
    await claimer.query(`update ${table} set owner_xid = 'new' where workflow_uuid = 'a'`);
    const written = store.storage.steps.recordMany('app', [newStep('a', 0), newStep('b', 0)]);
    await waiting(store, 'insert into');
    await claimer.query('commit');
    expect(await written).toBe(1);
    expect(await store.storage.steps.history(['a'])).toEqual([]);
  });

  it('a takeover skips workflows that ended or were taken while it waited', async () => {
    await start(store, 'ended', 'taken', 'cancelled', 'left', 'later');
    const other = await transaction(store);
    await other.query(`update ${table} set status = 'SUCCESS' where workflow_uuid = 'ended'`);
    await other.query(`update ${table} set executor_id = 'other', owner_xid = 'x' where workflow_uuid = 'taken'`);
    await other.query(`update ${table} set status = 'CANCELLED' where workflow_uuid = 'cancelled'`);
    const claimed = claim();
    await waiting(store, 'with said');
    await other.query('commit');
    expect(await idsOf(claimed)).toEqual(['later', 'left']);
    expect(await statuses(store)).toMatchObject({ ended: 'SUCCESS', cancelled: 'CANCELLED' });
  });

  it('a claim from a queue does not wait for a row that another claim is taking', async () => {
    await start(store, 'a', 'b');
    const owned = ['a', 'b'].map((id) => ({ workflowId: id, owner: `owner of ${id}` }));
    await store.storage.workflows.release({ owned, queueName: 'q', now: 3000 });
    const other = await transaction(store);
    await other.query(`select 1 from ${table} where workflow_uuid = 'a' for update`);
    expect(await idsOf(dequeue(store.storage, { ...newClaim(), queueName: 'q' }))).toEqual(['b']);
    await other.query('rollback');
  });

  it('parallel checkpoints of one workflow do not wait for each other', async () => {
    await start(store, 'a');
    const other = await transaction(store);
    await other.query(`select 1 from ${table} where workflow_uuid = 'a' for share`);
    expect(await store.storage.steps.recordMany('app', [newStep('a', 0)])).toBe(1);
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
