import type { TransactionStorage } from '../contract/storage.js';
import { type BatchStatement, countable, type Database, type Row, type Statement } from '../database.js';
import { columnLiterals } from '../postgres/array-literal.js';
import { SqlMessages } from '../sql/messages.js';
import { SqlQueues } from '../sql/queues.js';
import { SqlSteps } from '../sql/steps.js';
import { SqlWorkflows } from '../sql/workflows.js';
import { isOpen, reaches } from './checks.js';
import type { CallerTransaction } from './transaction.js';

/**
 * Storage that runs the usual statements inside a transaction of the caller. They commit together with it or not at
 * all.
 */
export function storageInTransaction(own: Database, tx: CallerTransaction): TransactionStorage {
  const database = transactionDatabase(own, tx);
  return {
    workflows: new SqlWorkflows(database),
    queues: new SqlQueues(database),
    steps: new SqlSteps(database),
    // Holdfast does not learn of the caller's commit, so the trigger announces these messages.
    messages: new SqlMessages(database, 'trigger'),
    announce: (topics) => database.announce(topics),
    reaches: (purpose) => reaches(own, tx, purpose),
    isOpen: () => isOpen(tx),
    owns: async (workflowId, owner) => {
      const text =
        `select 1 as found from ${own.dialect.table('workflow_status')} ` +
        'where workflow_uuid = $1 and owner_xid = $2';
      return (await tx.query(text, [workflowId, owner])).length > 0;
    },
  };
}

function transactionDatabase(own: Database, tx: CallerTransaction): Database {
  const query = async (statement: Statement, params: readonly unknown[]): Promise<Row[]> => {
    if (statement.first) await tx.query(statement.first, params);
    return tx.query(statement.text, params);
  };
  const batch: Database['batch'] = (statement, shared, rows) =>
    tx.dialect === 'postgres' ? runForAll(tx, statement, shared, rows) : runForEach(tx, statement, shared, rows);
  return {
    dialect: own.dialect,
    writeLanes: own.writeLanes,
    query,
    batch,
    write: async (statement, shared, rows) => (await batch(countable(statement), shared, rows)).length,
    classify: (error) => own.classify(error),
    now: () => own.now(),
    changeCounter: () => own.changeCounter(),
    lostConnections: () => own.lostConnections(),
    announce: (topics) => own.announce(topics, query),
    listen: (callbacks) => own.listen(callbacks),
    close: async () => {},
  };
}

async function runForAll<T extends object>(
  tx: CallerTransaction,
  { text, columns }: BatchStatement<T>,
  shared: readonly unknown[],
  rows: readonly T[],
): Promise<Row[]> {
  if (rows.length === 0) return [];
  const names = Object.keys(columns) as (keyof T)[];
  return tx.query(text, [...shared, ...columnLiterals(rows, names)]);
}

async function runForEach<T extends object>(
  tx: CallerTransaction,
  { text, columns, also = [] }: BatchStatement<T>,
  shared: readonly unknown[],
  rows: readonly T[],
): Promise<Row[]> {
  const names = Object.keys(columns) as (keyof T)[];
  const results: Row[] = [];
  for (const row of rows) {
    const params = [...shared, ...names.map((name) => row[name])];
    const found = await tx.query(text, params);
    if (found.some(({ landed }) => landed)) for (const each of also) await tx.query(each, params);
    results.push(...found);
  }
  return results;
}
