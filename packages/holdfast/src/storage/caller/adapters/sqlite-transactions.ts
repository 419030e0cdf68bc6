import { setTimeout as delay } from 'node:timers/promises';
import { processWide } from '../../../model/process-wide.js';
import { isSqlite } from '../../sqlite/codes.js';
import { isInTransaction } from '../../sqlite/connection.js';
import type { Datasource } from '../datasource.js';
import { type SqliteLike, sqliteQuery, sqliteRows } from '../transaction.js';

/**
 * SQLite waits for a lock by blocking the event loop. Therefore SQLite waits only briefly, and the rest of the waiting
 * is asynchronous.
 */
const blockingWaitMs = 20;

/** A database object is one connection, so its transactions run one after the other. */
const queues = processWide('sqliteTransactions', () => new WeakMap<SqliteLike, Promise<unknown>>());

/**
 * Transactions on a database object of `node:sqlite` or better-sqlite3. `tx` is the value that the functions of users
 * receive.
 */
export function sqliteTransactions<Tx>(
  db: SqliteLike,
  tx: Tx,
): Pick<Datasource<Tx>, 'transact' | 'query' | 'confirmsCommit'> {
  const query = sqliteQuery(db);
  return {
    confirmsCommit: true,
    transact: ({ readOnly }, work) => {
      const next = (queues.get(db) ?? Promise.resolve()).then(async () => {
        begin(db, readOnly === true);
        try {
          const result = await work(tx);
          await commit(db);
          return result;
        } catch (error) {
          if (isInTransaction(db)) db.exec('rollback');
          throw error;
        }
      });
      const settled = next.catch(() => {});
      queues.set(db, settled);
      return next;
    },
    query: (_, text, params) => query(text, params),
  };
}

/** IMMEDIATE, because a deferred transaction that changes from reading to writing fails with BUSY at once. */
function begin(db: SqliteLike, readOnly: boolean): void {
  executeBriefly(db, readOnly ? 'begin' : 'begin immediate');
}

/**
 * Commits, and retries for as long as the connection is configured to wait for locks. Without a write-ahead log, a
 * commit fails with BUSY while another connection reads. The transaction stays open then, and new readers wait for it.
 */
async function commit(db: SqliteLike): Promise<void> {
  for (let leftMs = busyTimeoutOf(db); ; leftMs -= 2 * blockingWaitMs) {
    try {
      return executeBriefly(db, 'commit');
    } catch (error) {
      if (leftMs <= 0 || !isInTransaction(db) || !isSqlite(error, 'SQLITE_BUSY')) throw error;
    }
    await delay(blockingWaitMs);
  }
}

function executeBriefly(db: SqliteLike, statement: string): void {
  const timeoutMs = busyTimeoutOf(db);
  db.exec(`pragma busy_timeout = ${blockingWaitMs}`);
  try {
    db.exec(statement);
  } finally {
    db.exec(`pragma busy_timeout = ${timeoutMs}`);
  }
}

function busyTimeoutOf(db: SqliteLike): number {
  const [row] = sqliteRows(db, 'pragma busy_timeout');
  return row?.timeout as number;
}
