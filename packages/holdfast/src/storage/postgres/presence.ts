import type pg from 'pg';
import type { Dialect } from '../database.js';

/**
 * The class of the locks by which executors are seen to live: advisory locks of two numbers, of which this is the first.
 * Locks of one number, such as that of migrations, are apart from them in any case.
 */
const lockClass = 0x486f6c64;

/** How Postgres marks locks of two numbers. */
const twoNumbers = 2;

const ours =
  `locktype = 'advisory' and granted and classid = ${lockClass} and objsubid = ${twoNumbers} ` +
  'and database = (select oid from pg_database where datname = current_database())';

export const presence: Dialect['presence'] = {
  // Once for all executors: each look at pg_locks goes through every lock of the server.
  before: `with present as materialized (select objid::text as key from pg_locks where ${ours})`,
  of: (key) => `case when ${key} is not null then ${key} in (select key from present) end`,
};

/**
 * Takes the lock in the session, and tells whether others see it held there. Shared: the session before this one may not
 * be gone yet, and does not give way.
 */
export async function holdPresence(client: pg.ClientBase, key: string): Promise<boolean> {
  const { rows } = await client.query(
    `select pg_try_advisory_lock_shared(${lockClass}, $1::int) as locked, pg_backend_pid() as pid`,
    [key],
  );
  const [taken] = rows;
  // A pooler lends each statement another session: then the lock is in one that is not ours to keep.
  const seen = await client.query(
    `select 1 from pg_locks where ${ours} and objid = $1::oid and pid = pg_backend_pid() and pid = $2`,
    [key, taken?.pid],
  );
  return taken?.locked === true && seen.rows.length > 0;
}
