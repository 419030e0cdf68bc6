import type pg from 'pg';
import type { Dialect } from '../database.js';

/**
 * The first number of the presence locks, which show other processes that an executor is alive. Presence locks are
 * advisory locks with two numbers. They never conflict with locks of one number, such as the migration lock.
 */
const lockClass = 0x486f6c64;

/** The value of `objsubid` for advisory locks with two numbers. */
const twoNumbers = 2;

const ours =
  `locktype = 'advisory' and granted and classid = ${lockClass} and objsubid = ${twoNumbers} ` +
  'and database = (select oid from pg_database where datname = current_database())';

export const presence: Dialect['presence'] = {
  // The locks are queried once for all executors, because each query of pg_locks reads every lock of the server.
  before: `with present as materialized (select objid::text as key from pg_locks where ${ours})`,
  of: (key) => `case when ${key} is not null then ${key} in (select key from present) end`,
};

/**
 * Takes the presence lock in the session. Resolves to true if other processes see that this session holds the lock. The
 * lock is shared, because the previous session of this process may still exist and hold the lock.
 */
export async function takePresenceLock(client: pg.ClientBase, key: string): Promise<boolean> {
  const { rows } = await client.query(
    `select pg_try_advisory_lock_shared(${lockClass}, $1::int) as locked, pg_backend_pid() as pid`,
    [key],
  );
  const [taken] = rows;
  // A pooler may run each statement in another session. Then the lock belongs to a session that this process does not
  // keep.
  const visible = await client.query(
    `select 1 from pg_locks where ${ours} and objid = $1::oid and pid = pg_backend_pid() and pid = $2`,
    [key, taken?.pid],
  );
  return taken?.locked === true && visible.rows.length > 0;
}
