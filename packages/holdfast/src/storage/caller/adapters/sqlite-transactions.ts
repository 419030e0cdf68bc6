import { setTimeout as delay } from 'node:timers/promises';
import { processWide } from '../../../model/process-wide.js';
import { isSqlite } from '../../sqlite/codes.js';
import { isInTransaction } from '../../sqlite/connection.js';
import type { Datasource } from '../datasource.js';
import { type SqliteLike, sqliteQuery, sqliteRows } from '../transaction.js';

/** SQLite waits for a lock by blocking the event loop: only briefly, the rest of the waiting is ours. */
const blockingWaitMs = 20;

/** A database object is one connection: its transactions come one after the other. */
const queues = processWide('sqliteTransactions', () => new WeakMap<SqliteLike, Promise<unknown>>());

/** Transactions over a database object of `node:sqlite` or better-sqlite3, for whoever has it (`tx`: the form in which users get it). */
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

/** IMMEDIATE: a deferred transaction that turns from reading to writing fails with BUSY at once. */
function begin(db: SqliteLike, readOnly: boolean): void {
  briefly(db, readOnly ? 'begin' : 'begin immediate');
}

/**
 * Without a write-ahead log there is no commit while somebody reads. The transaction stays open then, and new readers
 * have to wait for it: the commit is tried again for as long as the connection is to wait for locks.
 */
async function commit(db: SqliteLike): Promise<void> {
  for (let left = patienceOf(db); ; left -= 2 * blockingWaitMs) {
    try {
      return briefly(db, 'commit');
    } catch (error) {
      if (left <= 0 || !isInTransaction(db) || !isSqlite(error, 'SQLITE_BUSY')) throw error;
    }
    await delay(blockingWaitMs);
  }
}

function briefly(db: SqliteLike, statement: string): void {
  const patience = patienceOf(db);
  db.exec(`pragma busy_timeout = ${blockingWaitMs}`);
  try {
    db.exec(statement);
  } finally {
    db.exec(`pragma busy_timeout = ${patience}`);
  }
}

function patienceOf(db: SqliteLike): number {
  const [row] = sqliteRows(db, 'pragma busy_timeout');
  return row?.timeout as number;
}
