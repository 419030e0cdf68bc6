import type { TransactionStorage } from '../contract/storage.js';
import type { BatchStatement, Database, Row, Statement } from '../database.js';
import { columnLiteral } from '../postgres/array-literal.js';
import { SqlMessages } from '../sql/messages.js';
import { SqlQueues } from '../sql/queues.js';
import { SqlSteps } from '../sql/steps.js';
import { SqlWorkflows } from '../sql/workflows.js';
import { isOpen, reaches } from './checks.js';
import type { CallerTransaction } from './transaction.js';

/** The statements of this folder, as they are, inside a transaction of the caller's: committed or not together with it. */
export function storageInTransaction(own: Database, tx: CallerTransaction): TransactionStorage {
  const database = transactionDatabase(own, tx);
  return {
    workflows: new SqlWorkflows(database),
    queues: new SqlQueues(database),
    steps: new SqlSteps(database),
    // The caller commits, and tells nobody of it: the trigger announces these.
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
  return {
    dialect: own.dialect,
    writeLanes: own.writeLanes,
    query,
    batch: (statement, shared, rows) =>
      tx.dialect === 'postgres' ? inOne(tx, statement, shared, rows) : oneByOne(tx, statement, shared, rows),
    classify: (error) => own.classify(error),
    now: () => own.now(),
    changeCounter: () => own.changeCounter(),
    breaks: () => own.breaks(),
    announce: (topics) => own.announce(topics, query),
    listen: (hearing) => own.listen(hearing),
    close: async () => {},
  };
}

async function inOne<T extends object>(
  tx: CallerTransaction,
  { text, columns }: BatchStatement<T>,
  shared: readonly unknown[],
  rows: readonly T[],
): Promise<Row[]> {
  if (rows.length === 0) return [];
  const names = Object.keys(columns) as (keyof T)[];
  return tx.query(text, [...shared, ...names.map((name) => columnLiteral(rows, name))]);
}

async function oneByOne<T extends object>(
  tx: CallerTransaction,
  { text, columns, also = [] }: BatchStatement<T>,
  shared: readonly unknown[],
  rows: readonly T[],
): Promise<Row[]> {
  const names = Object.keys(columns) as (keyof T)[];
  const all: Row[] = [];
  for (const row of rows) {
    const params = [...shared, ...names.map((name) => row[name])];
    const found = await tx.query(text, params);
    if (found.some(({ landed }) => landed)) for (const each of also) await tx.query(each, params);
    all.push(...found);
  }
  return all;
}
