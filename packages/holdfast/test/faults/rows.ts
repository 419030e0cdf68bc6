import pg from 'pg';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import type { Ledger } from './ledger.js';

/** Rows of `workflow_status` and `operation_outputs`, read without the code under test. */
export interface Rows {
  readonly workflows: readonly Row[];
  readonly steps: readonly Row[];
}

export type Row = Readonly<Record<string, unknown>>;

export interface RowReader {
  /** All columns of the workflows whose ID has this prefix, and of their steps, in a fixed order. */
  read(idPrefix: string): Promise<Rows>;
  close(): Promise<void>;
}

const workflowsSql =
  'select * from workflow_status where workflow_uuid >= $1 and workflow_uuid < $2 order by workflow_uuid';
const stepsSql =
  'select * from operation_outputs where workflow_uuid >= $1 and workflow_uuid < $2 order by workflow_uuid, function_id';

export async function openRows(database: string): Promise<RowReader> {
  return database.startsWith('sqlite') ? sqliteRows(database) : postgresRows(database);
}

function sqliteRows(path: string): RowReader {
  const db = openSqlite(path, { timeout: 10_000 });
  return {
    read: async (idPrefix) => {
      const range = { 1: idPrefix, 2: `${idPrefix}~` };
      return {
        workflows: db.prepare(workflowsSql).all(range) as Row[],
        steps: db.prepare(stepsSql).all(range) as Row[],
      };
    },
    close: async () => void db.close(),
  };
}

async function postgresRows(url: string): Promise<RowReader> {
  const client = new pg.Client(url);
  await client.connect();
  // The range of an ID prefix needs byte order.
  const inBytes = (sql: string): string =>
    sql
      .replace(/workflow_uuid (>=|<) (\$\d)/g, 'workflow_uuid collate "C" $1 $2')
      .replace(/from (\w+)/, 'from dbos.$1');
  return {
    read: async (idPrefix) => {
      const range = [idPrefix, `${idPrefix}~`];
      const workflows = (await client.query(inBytes(workflowsSql), range)).rows as Row[];
      return { workflows, steps: (await client.query(inBytes(stepsSql), range)).rows as Row[] };
    },
    close: () => client.end(),
  };
}

const unfinished = new Set(['PENDING', 'ENQUEUED', 'DELAYED']);

export function isEnded(workflow: Row): boolean {
  return !unfinished.has(String(workflow.status));
}

/**
 * Returns true if the step's end is recorded. A sleep has a row from its beginning, and a completion order from its
 * end.
 */
export function isCompleted(step: Row): boolean {
  return step.function_name !== 'DBOS.sleep' || step.completion_seq !== null;
}

/** The outcome as stored in the row: status, value and error, and when it was written. */
export function outcomeOf(workflow: Row): string {
  const { status, output, error, completed_at } = workflow;
  return JSON.stringify({ status, output, error, completedAt: Number(completed_at) });
}

/** Records in the ledger what is certainly committed by now. */
export function observe(ledger: Ledger, { workflows, steps }: Rows): void {
  for (const step of steps) {
    if (!isCompleted(step)) continue;
    const stepNumber = Number(step.function_id);
    ledger.append({ kind: 'committed', workflowId: String(step.workflow_uuid), stepNumber, by: 'database' });
  }
  for (const workflow of workflows.filter(isEnded)) {
    const detail = outcomeOf(workflow);
    ledger.append({ kind: 'outcome', workflowId: String(workflow.workflow_uuid), by: 'database', detail });
  }
}
