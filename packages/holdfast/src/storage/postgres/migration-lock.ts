import type pg from 'pg';
import type { Logger } from '../../model/logger.js';
import { sqlState } from './failures.js';

/** The number that DBOS for Python migrates under too, so that its processes and ours keep out of each other's way. */
const lockId = 1234567890;
const pollMs = 1000;
const logEveryMs = 10_000;

/** Undefined function, feature not supported: a server without advisory locks. */
const noAdvisoryLocks = ['42883', '0A000'];

/** `unavailable`: the server has none, so others may be at work too. */
export type MigrationLock = 'held' | 'unavailable';

interface Waiting {
  readonly client: pg.ClientBase;
  readonly logger: Logger;
  readonly pause: (ms: number) => Promise<void>;
  /** Whether the holder has done the work, so that there is no need for the lock any more. */
  readonly done: () => Promise<boolean>;
}

/**
 * Does the work under the migration lock, or not at all once another process has done it.
 *
 * It waits for as long as another session holds the lock: the lock goes with the session, so a holder that died holds
 * nothing, and one that lives is at work. Going on without it could run two migrators at once.
 */
export async function withMigrationLock(waiting: Waiting, work: (lock: MigrationLock) => Promise<void>): Promise<void> {
  const { client, logger } = waiting;
  for (let waitedMs = 0; ; waitedMs += pollMs) {
    const lock = await tryLock(client);
    if (lock === 'held') {
      try {
        return await work(lock);
      } finally {
        // A lost connection has already given the lock back.
        await client.query(`select pg_advisory_unlock(${lockId})`).catch(() => {});
      }
    }
    if (lock === 'unavailable') {
      logger.warn('this server has no advisory locks: migrating without one');
      return await work(lock);
    }
    if (waitedMs % logEveryMs === 0) logger.warn(`waiting for the migration lock, held by ${await holder(client)}`);
    await waiting.pause(pollMs);
    if (await waiting.done()) return;
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

/** Who to ask when it takes long. */
async function holder(client: pg.ClientBase): Promise<string> {
  const { rows } = await client.query(
    `select l.pid, a.application_name, a.client_addr, a.state, now() - a.backend_start as connected
       from pg_locks l left join pg_stat_activity a on a.pid = l.pid
      where l.locktype = 'advisory' and l.granted and l.classid = 0 and l.objid = ${lockId} and l.objsubid = 1
        and l.database = (select oid from pg_database where datname = current_database())`,
  );
  const [row] = rows;
  if (!row) return 'nobody any more';
  return `pid ${row.pid} (application_name "${row.application_name ?? ''}", state ${row.state ?? 'unknown'})`;
}
