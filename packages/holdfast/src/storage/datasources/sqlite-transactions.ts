import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from 'better-sqlite3';
import { processWide } from '../../model/process-wide.js';
import { sqliteQuery } from '../borrowed.js';
import type { Datasource } from '../datasource.js';

/** better-sqlite3 waits for a lock by blocking the event loop: only briefly, the rest of the waiting is ours. */
const blockingWaitMs = 20;

/** A Database is one connection: its transactions come one after the other. */
const queues = processWide('sqliteTransactions', () => new WeakMap<Database, Promise<unknown>>());

/** Transactions over a Database of better-sqlite3, for whoever has it (`tx`: the form in which users get it). */
export function sqliteTransactions<Tx>(
  db: Database,
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
          if (db.inTransaction) db.exec('rollback');
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
function begin(db: Database, readOnly: boolean): void {
  briefly(db, readOnly ? 'begin' : 'begin immediate');
}

/**
 * Without a write-ahead log there is no commit while somebody reads. The transaction stays open then, and new readers
 * have to wait for it: the commit is tried again for as long as the Database is to wait for locks.
 */
async function commit(db: Database): Promise<void> {
  for (let left = patienceOf(db); ; left -= 2 * blockingWaitMs) {
    try {
      return briefly(db, 'commit');
    } catch (error) {
      if (left <= 0 || !db.inTransaction || !isBusy(error)) throw error;
    }
    await delay(blockingWaitMs);
  }
}

function briefly(db: Database, statement: string): void {
  const patience = patienceOf(db);
  db.pragma(`busy_timeout = ${blockingWaitMs}`);
  try {
    db.exec(statement);
  } finally {
    db.pragma(`busy_timeout = ${patience}`);
  }
}

function patienceOf(db: Database): number {
  return Number(db.pragma('busy_timeout', { simple: true }));
}

function isBusy(error: unknown): boolean {
  return String((error as { readonly code?: unknown } | null)?.code).startsWith('SQLITE_BUSY');
}
