import type { Database } from 'better-sqlite3';
import { sqliteQuery } from '../borrowed.js';
import type { Datasource } from '../datasource.js';

/** better-sqlite3 waits for a lock by blocking the event loop: only briefly, the rest of the waiting is ours. */
const blockingWaitMs = 20;

/** A Database is one connection: its transactions come one after the other. */
const queues = new WeakMap<Database, Promise<unknown>>();

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
          db.exec('commit');
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
  const patience = db.pragma('busy_timeout', { simple: true });
  db.pragma(`busy_timeout = ${blockingWaitMs}`);
  try {
    db.exec(readOnly ? 'begin' : 'begin immediate');
  } finally {
    db.pragma(`busy_timeout = ${Number(patience)}`);
  }
}
