import pg from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import type { Storage } from '../../src/storage/contract/storage.js';
import type { BatchStatement, Database, Dialect, Statement } from '../../src/storage/database.js';
import { openStorage } from '../../src/storage/open.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { SqlQueues } from '../../src/storage/sql/queues.js';
import { SqlWorkflows } from '../../src/storage/sql/workflows.js';
import { sqliteDialect } from '../../src/storage/sqlite/dialect.js';
import { type Backend, describeLayouts, silent } from '../support/backends.js';
import { first, newClaim } from './contract-support.js';
import { flatten, type PlanNode, rowsRead } from './plan-nodes.js';
import { debounced, enqueued, settings } from './queue-support.js';
import { openWire } from './wire.js';

/**
 * Each statement must use index probes, even if 100,000 workflows wait on a queue and 100,000 more have ended. The
 * number of probes must not grow with either.
 */
const backlog = 100_000;
const partitions = 50;

/** As in practice, only a few of the ended workflows count for the rate limit. */
const rate = { max: 10, since: -backlog / 2 };
const look = { ...newClaim(), queueName: 'parted', after: 'p10', limit: 20, waitingUpTo: 10, rate, suspects: false };
const claim = { ...newClaim(), rateLimited: true, suspects: false };
const whole = { ...claim, queueName: 'plain', portions: [{ partition: null, n: 5 }], byPartition: false };
/** The plain queue has three priorities. */
const byArrival = { ...whole, firstCome: true };
const parted = {
  ...claim,
  queueName: 'parted',
  portions: ['p3', 'p7', 'p40'].map((partition) => ({ partition, n: 2 })),
  byPartition: true,
};

/** Reading all 20,000 workflows in front would take about 700 pages. */
const maxPagesBehind = 400;

type Calls = Pick<Storage, 'workflows' | 'queues'>;

/** Two queues with work for this process behind 20,000 workflows of another version, in as many partitions. */
const behind = { ...whole, queueName: 'behind', rateLimited: false };
const behindParted = {
  ...parted,
  queueName: 'behindParted',
  portions: [{ partition: 'q5', n: 2 }],
  rateLimited: false,
};

/** Two queues with 20,000 suspect workflows, and one with ten behind 20,000 workflows that were tried before. */
const retried = { ...whole, queueName: 'retried', rateLimited: false, suspects: true };
const partedSuspects = { ...parted, queueName: 'partedRetried', rateLimited: false, suspects: true };
const lookForSuspects = { ...look, queueName: 'partedRetried', suspects: true, after: '' };

/** Each statement of the queues, and the maximum of workflow rows it may read. */
const calls: Record<string, [most: number, call: (on: Calls) => Promise<unknown>]> = {
  'workflows.enqueue': [10, (on) => on.queues.enqueueMany([enqueued('new', { queueName: 'plain' })])],
  'workflows.enqueueChild': [
    10,
    (on) => on.queues.enqueueMany([enqueued('n', { queueName: 'plain', parentWorkflowId: 'e1', parentOwner: 'o' })]),
  ],
  'workflows.enqueueAll': [
    20,
    (on) => on.queues.enqueueAll([1, 2, 3].map((i) => enqueued(`n${i}`, { queueName: 'plain', dedupId: `n${i}` }))),
  ],
  'workflows.debounce': [10, (on) => on.queues.debounce(debounced('new', { queueName: 'plain', dedupId: 'dedup 5' }))],
  'workflows.holders': [10, (on) => on.queues.holders([{ queueName: 'plain', dedupId: 'dedup 5' }])],
  'workflows.promoteDue': [60, (on) => on.queues.promoteDue({ now: 1020, limit: 10 })],
  'workflows.setDelay': [5, (on) => on.queues.setDelay({ workflowId: 'd1', delayUntil: 9, now: 9 })],
  'workflows.setPriority': [5, (on) => on.queues.setPriority({ workflowId: 'plain1', priority: 9, now: 9 })],
  'workflows.dequeue-free': [60, (on) => on.queues.dequeue({ ...whole, lockVersion: null, exclusive: false })],
  'workflows.dequeue-shared': [60, (on) => on.queues.dequeue({ ...whole, lockVersion: 0, exclusive: false })],
  'workflows.dequeue-exclusive': [60, (on) => on.queues.dequeue({ ...whole, lockVersion: 0, exclusive: true })],
  'workflows.dequeue-free by arrival': [
    100,
    (on) => on.queues.dequeue({ ...byArrival, lockVersion: null, exclusive: false }),
  ],
  'workflows.dequeue-partitions-free by arrival': [
    120,
    (on) => on.queues.dequeue({ ...parted, firstCome: true, lockVersion: null, exclusive: false }),
  ],
  'workflows.dequeue-free by arrival behind another version': [
    100,
    (on) => on.queues.dequeue({ ...behind, firstCome: true, lockVersion: null, exclusive: false }),
  ],
  'workflows.dequeue-partitions-free': [
    60,
    (on) => on.queues.dequeue({ ...parted, lockVersion: null, exclusive: false }),
  ],
  'workflows.dequeue-partitions-shared': [
    60,
    (on) => on.queues.dequeue({ ...parted, lockVersion: 0, exclusive: false }),
  ],
  'workflows.dequeue-partitions-exclusive': [
    60,
    (on) => on.queues.dequeue({ ...parted, lockVersion: 0, exclusive: true }),
  ],
  // Ten workflows of each of 20 partitions count as waiting, plus the running and started ones of each.
  'queues.partitions': [1000, (on) => on.queues.partitions(look)],
  'queues.usage': [600, (on) => on.queues.usage({ name: 'plain', executorId: 'claimer', rate })],
  'workflows.dequeue-free behind another version': [
    60,
    (on) => on.queues.dequeue({ ...behind, lockVersion: null, exclusive: false }),
  ],
  'workflows.dequeue-partitions-exclusive behind another version': [
    60,
    (on) => on.queues.dequeue({ ...behindParted, lockVersion: 0, exclusive: true }),
  ],
  'queues.partitions behind another version': [
    400,
    (on) => on.queues.partitions({ ...look, queueName: 'behindParted', after: '' }),
  ],
  'workflows.dequeue-suspects-free': [
    60,
    (on) => on.queues.dequeue({ ...retried, lockVersion: null, exclusive: false }),
  ],
  'workflows.dequeue-suspects-free behind what has been tried': [
    20_100,
    (on) => on.queues.dequeue({ ...retried, queueName: 'tried', lockVersion: null, exclusive: false }),
  ],
  'workflows.dequeue-suspects-free where there is none': [
    10,
    (on) => on.queues.dequeue({ ...retried, queueName: 'plain', lockVersion: null, exclusive: false }),
  ],
  'workflows.dequeue-suspects-partitions-exclusive': [
    80,
    (on) => on.queues.dequeue({ ...partedSuspects, lockVersion: 0, exclusive: true }),
  ],
  'queues.partitions-of-suspects': [1000, (on) => on.queues.partitions(lookForSuspects)],
  'queues.partitions-of-suspects where there is none': [
    100,
    (on) => on.queues.partitions({ ...lookForSuspects, queueName: 'parted' }),
  ],
  'workflows.markSuspended': [5, (on) => on.workflows.markSuspended([{ workflowId: 'z1', owner: 'o1', ...first }])],
  'workflows.release': [
    5,
    (on) => on.workflows.release({ owned: [{ workflowId: 'z1', owner: 'o1' }], queueName: 'x', now: 1 }),
  ],
  'queues.overview': [20, (on) => on.queues.overview()],
  'queues.busy': [40, (on) => on.queues.busy()],
  'queues.stray': [60, (on) => on.queues.onUnknownQueues('app')],
  'queues.waits': [1, (on) => on.queues.hasWaiting('plain')],
  'queues.giveKeys': [4 * backlog, (on) => on.queues.assignPartitionKeys(['parted'])],
  'queues.unfinished': [1.6 * backlog, (on) => on.queues.unfinished('plain')],
  'queues.counted': [3.2 * backlog + 60_000, (on) => on.queues.listWithCounts(null)],
  'queues.remove': [20, (on) => on.queues.remove('plain')],
};

/** The contents of the tables: the number of rows of each kind, and their columns as functions of a number `i`. */
const kinds: [number, Record<string, string>][] = [
  [backlog, { id: "'plain' || i", priority: 'i % 3', deduplication_id: "'dedup ' || i" }],
  [backlog, { id: "'parted' || i", queue_name: "'parted'", queue_partition_key: `'p' || i % ${partitions}` }],
  [
    backlog,
    {
      ...{ id: "'e' || i", status: "'SUCCESS'", queue_name: "case i % 2 when 0 then 'plain' else 'parted' end" },
      ...{ queue_partition_key: `case i % 2 when 1 then 'p' || i % ${partitions} end`, completed_at: 'i' },
      ...{
        started_at_epoch_ms: 'case i % 4 when 0 then -i * 1000 else -i end',
        rate_limited: 'i % 4 = 0',
        executor_id: "'claimer'",
        owner_xid: "'o'",
      },
    },
  ],
  [5000, { id: "'d' || i", status: "'DELAYED'", delay_until_epoch_ms: '1000 + i' }],
  [100, { id: "'r' || i", status: "'PENDING'", started_at_epoch_ms: 'i', rate_limited: 'true' }],
  [
    100,
    {
      ...{ id: "'rp' || i", status: "'PENDING'", started_at_epoch_ms: 'i', rate_limited: 'true' },
      ...{ queue_name: "'parted'", queue_partition_key: `'p' || i % ${partitions}` },
    },
  ],
  // Suspended workflows hold no slot, and must not be counted one by one.
  [
    backlog,
    {
      ...{ id: "'z' || i", status: "'PENDING'", started_at_epoch_ms: 'i', owner_xid: "'o' || i" },
      ...{ resting_owner: "'o' || i", executor_id: "'claimer'", enqueue_seq: '-i' },
      ...{
        queue_name: "case i % 2 when 0 then 'plain' else 'parted' end",
        queue_partition_key: `case i % 2 when 1 then 'p' || i % ${partitions} end`,
      },
    },
  ],
  [20_000, { id: "'suspect' || i", queue_name: "'retried'", recovery_attempts: '60' }],
  [20_000, { id: "'tried' || i", queue_name: "'tried'", recovery_attempts: '1' }],
  [10, { id: "'suspectt' || i", queue_name: "'tried'", recovery_attempts: '60', enqueue_seq: '20000 + i' }],
  [
    20_000,
    {
      ...{ id: "'suspectp' || i", queue_name: "'partedRetried'", queue_partition_key: `'p' || i % ${partitions}` },
      recovery_attempts: '60',
    },
  ],
  [20_000, { id: "'ov' || i", queue_name: "'behind'", application_version: "'v0'" }],
  [10, { id: "'own' || i", queue_name: "'behind'", enqueue_seq: '20000 + 2 * i' }],
  [10, { id: "'none' || i", queue_name: "'behind'", enqueue_seq: '20001 + 2 * i', application_version: 'null' }],
  [
    20_000,
    {
      ...{ id: "'op' || i", queue_name: "'behindParted'", application_version: "'v0'" },
      queue_partition_key: "'p' || i",
    },
  ],
  [
    20,
    {
      ...{ id: "'ownp' || i", queue_name: "'behindParted'", queue_partition_key: "'q' || i % 10" },
      application_version: "case when i < 10 then 'v1' end",
    },
  ],
  // Sleeping workflows, on no queue.
  [20_000, { id: "'s' || i", status: "'PENDING'", queue_name: 'null', enqueue_seq: 'null', executor_id: "'claimer'" }],
];

function fill(table: string, series: (count: number) => string): string[] {
  const usual = { status: "'ENQUEUED'", name: "'greet'", queue_name: "'plain'", enqueue_seq: 'i', created_at: 'i' };
  const common = { ...usual, updated_at: 'i', application_version: "'v1'", application_name: "'app'", priority: '0' };
  return kinds.map(([count, { id, ...own }]) => {
    const columns = Object.entries({ workflow_uuid: id, ...common, ...own });
    const names = columns.map(([name]) => name).join(', ');
    return `insert into ${table} (${names}) select ${columns.map(([, value]) => value).join(', ')} from ${series(count)}`;
  });
}

describeLayouts('the plan of each statement on a queue with 100,000 waiting', suite);

function suite(backend: Backend): void {
  let database = '';
  const filled = async (): Promise<string> => {
    const url = await backend.newDatabase();
    const storage = await openStorage({
      url,
      schema: 'dbos',
      migrate: false,
      logger: silent,
      applicationName: 'plans',
    });
    const common = { policy: 'always' as const, appName: 'app', version: null, now: 0 };
    await storage.queues.register({ ...common, queues: [{ name: 'plain', settings: settings({ concurrency: 500 }) }] });
    await storage.queues.register({
      ...common,
      queues: [{ name: 'parted', settings: settings({}, { concurrency: 10 }) }],
    });
    await storage.queues.register({
      ...common,
      queues: [{ name: 'partedRetried', settings: settings({}, { concurrency: 10 }) }],
    });
    await storage.queues.register({ ...common, queues: [{ name: 'behind', settings: settings() }] });
    await storage.queues.register({
      ...common,
      queues: [{ name: 'behindParted', settings: settings({}, { concurrency: 10 }) }],
    });
    await storage.versions.register({ name: 'v1', appName: 'app', now: 1 });
    await storage.close();
    return url;
  };
  if (backend.name === 'sqlite') {
    beforeAll(async () => {
      database = await filled();
      const db = openSqlite(database);
      const series = (count: number) =>
        `(with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${count}) select i from n)`;
      for (const insert of fill('workflow_status', series)) db.exec(insert);
      db.close();
    });
    it.each(Object.keys(calls))('%s', (name) => checkSqlitePlan(database, name));
    return;
  }
  // The checks run one after the other on the same rows: each check rolls its changes back.
  describe.each(['never analysed', 'analysed'])('(%s)', (state) => {
    beforeAll(async () => {
      const isFilled = database !== '';
      if (!isFilled) database = await filled();
      const client = new pg.Client(database);
      await client.connect();
      if (!isFilled) await fillPostgres(client);
      if (state === 'analysed') await client.query('analyze');
      await client.end();
    });
    it.each(Object.keys(calls))('%s', (name) => checkPostgresPlan(database, name));
  });
}

async function fillPostgres(client: pg.Client): Promise<void> {
  await client.query('alter table dbos.workflow_status set (autovacuum_enabled = false)');
  const series = (count: number) => `generate_series(0, ${count - 1}) i`;
  for (const insert of fill('dbos.workflow_status', series)) await client.query(insert);
}

interface Captured {
  readonly statement: Statement;
  readonly values: readonly unknown[];
  readonly batched: boolean;
}

/** Returns the statement of that name as the code sends it. */
async function capture(dialect: Dialect, name: string): Promise<Captured> {
  const found: Captured[] = [];
  const query = async (statement: Statement, values: readonly unknown[]) => {
    found.push({ statement, values, batched: false });
    return [];
  };
  const batch = async (statement: BatchStatement<object>, shared: readonly unknown[], given: readonly object[]) => {
    if (given.length === 0) return [];
    const names = Object.keys(statement.columns) as never[];
    const own = names.map((column) => (dialect.locksRows ? given.map((row) => row[column]) : given[0]?.[column]));
    found.push({ statement, values: [...shared, ...own], batched: true });
    return [];
  };
  const recorder = { dialect, query, batch } as unknown as Database;
  await calls[name]?.[1]({ workflows: new SqlWorkflows(recorder), queues: new SqlQueues(recorder) });
  return found.find(({ statement }) => statement.name === name.split(' ')[0]) as Captured;
}

async function checkPostgresPlan(database: string, name: string): Promise<void> {
  const { statement, values, batched } = await capture(postgresDialect('dbos'), name);
  const client = new pg.Client(database);
  await client.connect();
  onTestFinished(() => client.end());
  if (batched || statement.pinned) await client.query(await writerSettings(database));
  await client.query('begin');
  // A prepared statement, planned without the values like the statements of the code.
  await client.query(`prepare planned as ${statement.text}`);
  const given = values.length > 0 ? `(${values.map((value) => literal(client, value)).join(', ')})` : '';
  const { rows: found } = await client.query(`explain (analyze, buffers, format json) execute planned${given}`);
  await client.query('rollback');
  const plan = found[0]['QUERY PLAN'][0].Plan as PlanNode;
  if (name.endsWith('behind another version')) {
    expect(plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], 'pages').toBeLessThan(maxPagesBehind);
  }
  const nodes = flatten(plan);
  const scans = nodes.filter(
    (node) => node['Relation Name'] === 'workflow_status' && node['Node Type'].includes('Scan'),
  );
  expect(
    nodes.filter((node) => node['Node Type'] === 'Seq Scan' && node['Relation Name'] === 'workflow_status'),
  ).toEqual([]);
  const read = scans.reduce((sum, node) => sum + rowsRead(node), 0);
  expect(read, JSON.stringify(scans.map(summary))).toBeLessThanOrEqual(calls[name]?.[0] ?? 0);
}

function literal(client: pg.Client, value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (!Array.isArray(value)) return client.escapeLiteral(String(value));
  const items = value.map((item) => (item === null || item === undefined ? 'NULL' : JSON.stringify(String(item))));
  return client.escapeLiteral(`{${items.join(',')}}`);
}

/** Reads the settings of a connection for batches and pinned statements off the wire. */
async function writerSettings(database: string): Promise<string> {
  const wire = await openWire(database);
  const options = { url: wire.url, schema: 'dbos', migrate: false, logger: silent, applicationName: 'settings' };
  const storage = await openStorage(options);
  await storage.queues.overview();
  await storage.close();
  return wire.statements.find((text) => text.startsWith('set ')) as string;
}

function summary(node: PlanNode): string {
  return `${node['Node Type']} ${node['Index Name'] ?? ''}: ${rowsRead(node)}`;
}

async function checkSqlitePlan(database: string, name: string): Promise<void> {
  const { statement, values } = await capture(sqliteDialect, name);
  const db = openSqlite(database);
  onTestFinished(() => void db.close());
  const bound = Object.fromEntries(
    values.map((value, i) => [i + 1, typeof value === 'boolean' ? Number(value) : (value ?? null)]),
  );
  const plan = db.prepare(`explain query plan ${statement.text}`).all(values.length > 0 ? bound : {}) as {
    detail: string;
  }[];
  const details = plan.map((row) => row.detail);
  // The source of a batch is a separate subquery, and an app has only a few versions.
  const scans = details.filter((detail) => /^SCAN (w|s|n|c|fence|workflow_status)$/.test(detail));
  expect(scans, details.join('\n')).toEqual([]);
  const sorts = details.filter(
    (detail, i) =>
      detail.includes('FOR ORDER BY') &&
      name.includes('dequeue') &&
      !name.includes('by arrival') &&
      /workflow_status/.test(details[i - 1] ?? ''),
  );
  expect(sorts, details.join('\n')).toEqual([]);
}
