import pg from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import type { Storage } from '../../src/storage/contract/storage.js';
import type { BatchStatement, Database, Dialect, Statement } from '../../src/storage/database.js';
import { openStorage } from '../../src/storage/open.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { SqlEvents } from '../../src/storage/sql/events.js';
import { SqlMessages } from '../../src/storage/sql/messages.js';
import { SqlSteps } from '../../src/storage/sql/steps.js';
import { SqlStreams } from '../../src/storage/sql/streams.js';
import { sqliteDialect } from '../../src/storage/sqlite/dialect.js';
import { type Backend, describeLayouts, silent } from '../support/backends.js';
import { newWorkflow, writer } from './contract-support.js';
import { effectful, message, sent, set, written } from './messaging-support.js';
import { type PlanNode, readBy, writerSettings } from './plan-nodes.js';

/**
 * Each statement must use index probes, also after 100,000 messages of an inbox were consumed, while others wait
 * elsewhere, and after the workflow wrote 100,000 values to a stream. The number of probes must not grow with these.
 */
const past = 100_000;

type Calls = Pick<Storage, 'messages' | 'events' | 'streams' | 'steps'>;

const inbox = { workflowId: 'a', topic: 't', most: 5 };
const effects = [sent('new', 'b'), { kind: 'consume', messageId: 'u1' } as const, set('k1', 'v'), written('k', 'v')];

/** Each statement, and the maximum of rows it may read. */
const calls: Record<string, [most: number, call: (on: Calls) => Promise<unknown>]> = {
  'messages.waiting': [20, (on) => on.messages.waiting([inbox, { ...inbox, workflowId: 'b' }])],
  'messages.send': [10, (on) => on.messages.send([message('new', 'a'), message('newer', 'b')])],
  'messages.sendAll': [10, (on) => on.messages.sendAll([message('new', 'a'), message('newer', 'b')])],
  'messages.known': [10, (on) => on.messages.send([message('m1', 'a')])],
  'events.read': [10, (on) => on.events.read([{ workflowId: 'a', key: 'k1' }])],
  'events.set': [
    10,
    (on) =>
      on.events.set({
        workflowId: 'a',
        owner: 'owner of a',
        stepNumber: 1,
        key: 'k1',
        value: 'v',
        serialization: 'js',
      }),
  ],
  'streams.read': [
    60,
    (on) =>
      on.streams.read(
        [past - 20, past, 2 * past].map((from) => ({ workflowId: 'a', key: 'k', from })),
        50,
      ),
  ],
  'steps.record-effects': [30, (on) => on.steps.recordEffects('app', [effectful('a', 7, effects)])],
};

function fill(table: (name: string) => string, series: string): string[] {
  const said = 'insert into';
  const messages = '(message_uuid, destination_uuid, topic, message, consumed)';
  return [
    `${said} ${table('notifications')} ${messages} select 'm' || i, 'a', 't', 'x', true from ${series}`,
    `${said} ${table('notifications')} ${messages} select 'u' || i, 'a', 't', 'x', false from ${series} where i < 3`,
    `${said} ${table('notifications')} ${messages} select 'o' || i, 'w' || i, 't', 'x', false from ${series} where i < 5000`,
    `${said} ${table('streams')} (workflow_uuid, key, value, "offset") select 'a', 'k', 'x', i from ${series}`,
    `${said} ${table('workflow_events')} (workflow_uuid, key, value) select 'a', 'k' || i, 'x' from ${series}`,
  ];
}

describeLayouts('the plan of each statement after 100,000 messages and stream values', suite);

function suite(backend: Backend): void {
  let database = '';
  const opened = async (): Promise<string> => {
    const url = await backend.newDatabase();
    const options = { url, schema: 'dbos', migrate: false, logger: silent, applicationName: 'plans' };
    const storage = await openStorage(options);
    const ids = ['a', 'b', ...Array.from({ length: 5_000 }, (_, i) => `w${i}`)];
    await storage.workflows.insertMany(
      writer,
      ids.map((id) => newWorkflow(id)),
    );
    await storage.close();
    return url;
  };
  if (backend.name === 'sqlite') {
    beforeAll(async () => {
      database = await opened();
      const db = openSqlite(database);
      const series = `(with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${past}) select i from n)`;
      for (const insert of fill((name) => name, series)) db.exec(insert);
      db.close();
    });
    it.each(Object.keys(calls))('%s', (name) => checkSqlitePlan(database, name));
    return;
  }
  describe.each(['never analysed', 'analysed'])('(%s)', (state) => {
    beforeAll(async () => {
      database = await opened();
      const client = new pg.Client(database);
      await client.connect();
      const series = `generate_series(0, ${past - 1}) i`;
      for (const insert of fill((name) => `dbos.${name}`, series)) await client.query(insert);
      if (state === 'analysed') await client.query('analyze');
      await client.end();
    });
    it.each(Object.keys(calls))('%s', (name) => checkPostgresPlan(database, name));
  });
}

/** Returns the statement of that name as the code sends it, and its values. */
async function capture(dialect: Dialect, name: string): Promise<[Statement, readonly unknown[]]> {
  const found: [Statement, readonly unknown[]][] = [];
  const query = async (statement: Statement, values: readonly unknown[]) => {
    found.push([statement, values]);
    return [];
  };
  const batch = async (statement: BatchStatement<object>, shared: readonly unknown[], given: readonly object[]) => {
    const names = Object.keys(statement.columns) as never[];
    const own = names.map((column) => (dialect.locksRows ? given.map((row) => row[column]) : given[0]?.[column]));
    found.push([statement, [...shared, ...own]]);
    return [];
  };
  const on = { dialect, query, batch } as unknown as Database;
  const parts = { messages: new SqlMessages(on), events: new SqlEvents(on), streams: new SqlStreams(on) };
  await calls[name]?.[1]({ ...parts, steps: new SqlSteps(on) });
  return found.find(([statement]) => statement.name === name) as [Statement, readonly unknown[]];
}

async function checkPostgresPlan(database: string, name: string): Promise<void> {
  const [statement, values] = await capture(postgresDialect('dbos'), name);
  const client = new pg.Client(database);
  await client.connect();
  onTestFinished(() => client.end());
  if ('columns' in statement || statement.pinned) await client.query(writerSettings);
  await client.query('begin');
  const { rows } = await client.query(`explain (analyze, format json) ${statement.text}`, [...values]);
  await client.query('rollback');
  const read = readBy(rows[0]['QUERY PLAN'][0].Plan as PlanNode);
  expect(read.rows, read.how).toBeLessThanOrEqual(calls[name]?.[0] ?? 0);
}

async function checkSqlitePlan(database: string, name: string): Promise<void> {
  const [statement, values] = await capture(sqliteDialect, name);
  const db = openSqlite(database);
  onTestFinished(() => void db.close());
  const bound = Object.fromEntries(values.map((value, i) => [i + 1, value]));
  const texts = [statement.text, ...((statement as { also?: readonly string[] }).also ?? [])];
  for (const text of texts) {
    const plan = db.prepare(`explain query plan ${text}`).all(bound) as { detail: string }[];
    const details = plan.map((row) => row.detail);
    // The lists in a row of the batch and the results for the row are subqueries: m, s and, except for events, e.
    const tables = /^SCAN (w|d|fence|notifications|streams|operation_outputs|workflow_\w+)$/;
    const scans = details.filter((detail) => tables.test(detail) || (name === 'events.read' && detail === 'SCAN e'));
    expect(scans, `${text}\n${details.join('\n')}`).toEqual([]);
    // The rows come in the order of the index. Sorting the waiting messages would read all of them.
    if (name === 'messages.waiting') expect(details.join('\n')).not.toContain('FOR ORDER BY');
    if (name === 'messages.waiting') expect(details.join('\n')).toContain('idx_holdfast_unread');
  }
}
