import type pg from 'pg';
import type { Logger } from '../../model/logger.js';
import { sqlState } from './failures.js';

/** DBOS for Python uses the same number, so that its processes and ours never migrate at the same time. */
const lockId = 1234567890;
const pollMs = 1000;
const logEveryMs = 10_000;

/** Undefined function, feature not supported. A server without advisory locks answers with one of these states. */
const noAdvisoryLocks = ['42883', '0A000'];

/** `unavailable`: the server has no advisory locks, so other processes may migrate at the same time. */
export type MigrationLock = 'held' | 'unavailable';

interface LockOptions {
  readonly client: pg.ClientBase;
  readonly logger: Logger;
  readonly pause: (ms: number) => Promise<void>;
  /** Resolves to true if the process that held the lock has done the work, so that the lock is not needed any more. */
  readonly done: () => Promise<boolean>;
}

/**
 * Does the work under the migration lock, or does nothing if another process does the work first.
 *
 * The wait has no limit. The lock belongs to a session: a process that has died holds no lock, and a process that holds
 * the lock is still working. Continuing without the lock could run two migrators at once.
 */
export async function withMigrationLock(
  options: LockOptions,
  work: (lock: MigrationLock) => Promise<void>,
): Promise<void> {
  const { client, logger } = options;
  for (let waitedMs = 0; ; waitedMs += pollMs) {
    const lock = await tryLock(client);
    if (lock === 'held') {
      try {
        return await work(lock);
      } finally {
        // If the connection is lost, the server has already released the lock.
        await client.query(`select pg_advisory_unlock(${lockId})`).catch(() => {});
      }
    }
    if (lock === 'unavailable') {
      logger.warn('this server has no advisory locks: migrating without a lock');
      return await work(lock);
    }
    if (waitedMs % logEveryMs === 0)
      logger.warn(`waiting for the migration lock, held by ${await describeHolder(client)}`);
    await options.pause(pollMs);
    if (await options.done()) return;
  }
}

async function tryLock(client: pg.ClientBase): Promise<'held' | 'taken' | 'unavailable'> {
  try {
    const { rows } = await client.query(`select pg_try_advisory_lock(${lockId}) as locked`);
    return rows[0].locked ? 'held' : 'taken';
  } catch (error) {
    if (noAdvisoryLocks.includes(sqlState(error) ?? '')) return 'unavailable';
    throw error;
  }
}

/** Names the session that holds the lock, for an operator who wonders why the migration takes long. */
async function describeHolder(client: pg.ClientBase): Promise<string> {
  const { rows } = await client.query(
    `select l.pid, a.application_name, a.client_addr, a.state, now() - a.backend_start as connected
       from pg_locks l left join pg_stat_activity a on a.pid = l.pid
      where l.locktype = 'advisory' and l.granted and l.classid = 0 and l.objid = ${lockId} and l.objsubid = 1
        and l.database = (select oid from pg_database where datname = current_database())`,
  );
  const [row] = rows;
  if (!row) return 'a session that has just released it';
  return `pid ${row.pid} (application_name "${row.application_name ?? ''}", state ${row.state ?? 'unknown'})`;
}
