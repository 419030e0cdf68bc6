import pg from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import type { Database, Dialect, Statement } from '../../src/storage/database.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { SqlDeletions } from '../../src/storage/sql/deletions.js';
import { SqlForks } from '../../src/storage/sql/forks.js';
import { sqliteDialect } from '../../src/storage/sqlite/dialect.js';
import { type Backend, describeLayouts } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { type PlanNode, readBy, writerSettings } from './plan-nodes.js';

/** Deletions must use index probes, even if 100,000 workflows with a step each have ended. */
const past = 100_000;

interface Calls {
  readonly deletions: SqlDeletions;
  readonly forks: SqlForks;
}

const some = Array.from({ length: 20 }, (_, i) => `w${i * 100 + 1}`);
const app = { appName: 'app' };

/** Each statement, and the maximum of rows it may read. Each root has a child, and each of both has a step. */
const calls: Record<string, [most: number, call: (on: Calls) => Promise<unknown>]> = {
  'workflows.delete': [60, (on) => on.deletions.remove({ workflowIds: ['w1'], children: true })],
  'workflows.obstacles': [60, (on) => on.deletions.obstacles({ workflowIds: ['w1'], children: true })],
  'workflows.delete-expired': [900, (on) => on.deletions.removeExpired({ workflowIds: some, before: 9_000_000 })],
  'workflows.expired-page': [
    250,
    (on) =>
      on.deletions.expired({
        ...app,
        before: 9_000_000,
        after: { completedAt: 50_000, workflowId: 'w50000' },
        limit: 100,
      }),
  ],
  'workflows.retention-cutoff': [1_100, (on) => on.deletions.cutoff({ ...app, keep: 1_000 })],
  'workflows.step-count': [10, (on) => on.forks.stepCount('w7')],
};

describeLayouts('deletions', (backend) => {
  let database = '';
  beforeAll(async () => {
    database = await backend.newDatabase();
    await fill(backend, database);
  });
  describe(`with ${past} workflows that have ended`, () => {
    it.each(Object.keys(calls))('%s', (name) =>
      backend.name === 'postgres' ? checkPostgres(database, name) : checkSqlite(database, name),
    );
  });
});

async function fill(backend: Backend, database: string): Promise<void> {
  const series =
    backend.name === 'sqlite'
      ? `(with recursive s(i) as (select 1 union all select i + 1 from s where i < ${past}) select i from s) s`
      : `generate_series(1, ${past}) s(i)`;
  const parent = "case when i % 2 = 0 then 'w' || (i - 1) end";
  await tamper(
    database,
    `insert into workflow_status (workflow_uuid, status, name, inputs, created_at, updated_at, completed_at, parent_workflow_id, application_name) select 'w' || i, 'SUCCESS', 'wf', '[]', i, i, i, ${parent}, 'app' from ${series}`,
  );
  const child = "case when i % 2 = 1 then 'w' || (i + 1) end";
  await tamper(
    database,
    `insert into operation_outputs (workflow_uuid, function_id, function_name, child_workflow_id) select 'w' || i, 0, 's', ${child} from ${series}`,
  );
  await tamper(database, 'analyze');
}

async function capture(dialect: Dialect, name: string): Promise<[Statement, readonly unknown[]]> {
  const found: [Statement, readonly unknown[]][] = [];
  const query = async (statement: Statement, values: readonly unknown[]) => {
    found.push([statement, values]);
    return [];
  };
  const on = { dialect, query, batch: query } as unknown as Database;
  await calls[name]?.[1]({ deletions: new SqlDeletions(on), forks: new SqlForks(on) });
  return found.find(([statement]) => statement.name === name) as [Statement, readonly unknown[]];
}

async function checkPostgres(database: string, name: string): Promise<void> {
  const [statement, values] = await capture(postgresDialect('dbos'), name);
  const client = new pg.Client(database);
  await client.connect();
  onTestFinished(() => client.end());
  if (statement.pinned) await client.query(writerSettings);
  await client.query('begin');
  for (const text of [statement.first, statement.text]) {
    if (text === undefined) continue;
    const { rows } = await client.query(`explain (analyze, format json) ${text}`, [...values]);
    const read = readBy(rows[0]['QUERY PLAN'][0].Plan as PlanNode);
    expect(read.rows, read.how).toBeLessThanOrEqual(calls[name]?.[0] ?? 0);
  }
  await client.query('rollback');
}

async function checkSqlite(database: string, name: string): Promise<void> {
  const [statement, values] = await capture(sqliteDialect, name);
  const db = openSqlite(database);
  onTestFinished(() => void db.close());
  const bound = Object.fromEntries(
    values.map((value, i) => [i + 1, typeof value === 'boolean' ? Number(value) : value]),
  );
  const plan = db.prepare(`explain query plan ${statement.text}`).all(bound) as { detail: string }[];
  const details = plan.map(({ detail }) => detail);
  // `t`, `page` and similar names are results of subqueries. No table may be read completely.
  const scans = details.filter((detail) =>
    /^SCAN (w|p|o|u|c|workflow_status|operation_outputs)\b(?!.*USING)/.test(detail),
  );
  expect(scans, details.join('\n')).toEqual([]);
}
