import pg from 'pg';
import { beforeEach, expect, onTestFinished } from 'vitest';
import type { LimitSettings, QueueSettings } from '../../src/model/queues.js';
import type { QueueRecord } from '../../src/storage/contract/queues.js';
import type {
  ClaimedRecord,
  DebouncedWorkflow,
  Dequeued,
  DequeueParams,
  EnqueuedWorkflow,
  Storage,
} from '../../src/storage/contract/storage.js';
import type { Database } from '../../src/storage/database.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { SqlQueues } from '../../src/storage/sql/queues.js';
import { SqlWorkflows } from '../../src/storage/sql/workflows.js';
import { newClaim, type Store } from './contract-support.js';

export function enqueued(workflowId: string, more: Partial<EnqueuedWorkflow> = {}): EnqueuedWorkflow {
  return {
    workflowId,
    name: 'greet',
    className: null,
    configName: null,
    inputs: '[]',
    serialization: 'js_superjson',
    version: 'v1',
    appName: 'app',
    createdAt: 1000,
    timeoutMs: null,
    deadlineAt: null,
    user: null,
    roles: null,
    assumedRole: null,
    attributes: null,
    queueName: 'q',
    priority: 0,
    dedupId: null,
    partition: null,
    delayUntil: null,
    scheduleName: null,
    parentWorkflowId: null,
    parentOwner: null,
    detached: false,
    ...more,
  };
}

export function debounced(workflowId: string, more: Partial<DebouncedWorkflow> = {}): DebouncedWorkflow {
  const { parentOwner: _, ...row } = enqueued(workflowId);
  return { ...row, dedupId: 'key', delayUntil: 1500, debounceTimeoutMs: null, ...more };
}

export const noLimits: LimitSettings = { concurrency: null, workerConcurrency: null, rateLimit: null };

export function settings(limits: Partial<LimitSettings> = {}, partition?: Partial<LimitSettings>): QueueSettings {
  return {
    limits: { ...noLimits, ...limits },
    partition: partition ? { ...noLimits, ...partition } : null,
    priority: true,
    whileWaiting: 'hold',
  };
}

export async function register(
  storage: Storage,
  name: string,
  given: QueueSettings = settings(),
  more: Partial<Omit<Parameters<Storage['queues']['register']>[0], 'queues'>> = {},
): Promise<QueueRecord> {
  const [stored] = await storage.queues.register({
    queues: [{ name, settings: given }],
    policy: 'always',
    appName: 'app',
    version: 'v1',
    now: 1000,
    ...more,
  });
  return stored as QueueRecord;
}

/** Begins each test with one queue, `q`, without limits. */
export function withQueue(store: Store): void {
  beforeEach(async () => {
    await store.sql(`delete from ${store.table('queues')}`);
    await register(store.storage, 'q');
  });
}

export async function queueNamed(storage: Storage, name = 'q'): Promise<QueueRecord> {
  return (await storage.queues.list()).find((queue) => queue.name === name) as QueueRecord;
}

/** Takes work from `q` under the given lock version. Without one, takes work like from the internal queue. */
export async function take(storage: Storage, n: number, more: Partial<DequeueParams> = {}): Promise<ClaimedRecord[]> {
  return (await takeTurn(storage, n, more)).claimed;
}

/** Like `take`, and also returns if the lock version was current. */
export function takeTurn(storage: Storage, n: number, more: Partial<DequeueParams> = {}): Promise<Dequeued> {
  const { limit: _, ...claim } = newClaim();
  const portions = more.portions ?? [{ partition: null, n }];
  return storage.queues.dequeue({
    ...claim,
    queueName: 'q',
    byPartition: portions.some(({ partition }) => partition !== null),
    lockVersion: null,
    exclusive: false,
    rateLimited: false,
    suspects: false,
    ...more,
    portions,
  });
}

/** Claims the work on `q` one by one. Returns the IDs in the order in which the queue is processed. */
export async function inOrder(storage: Storage, more: Partial<DequeueParams> = {}): Promise<string[]> {
  const order: string[] = [];
  for (;;) {
    const [next, ...others] = await take(storage, 1, more);
    expect(others).toEqual([]);
    if (!next) return order;
    order.push(next.workflowId);
  }
}

/** Begins a transaction of another session, on Postgres. */
export async function transaction(store: Store): Promise<pg.Client> {
  const client = new pg.Client(store.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('begin');
  return client;
}

/** Resolves when a statement with this piece of text waits for a lock. */
export async function waiting(store: Store, text: string): Promise<void> {
  const blocked = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()
    and query like '%${text}%'`;
  await expect.poll(() => store.sql(blocked)).toHaveLength(1);
}

/** Opens our own statements in a transaction that the test ends. */
export async function ourTransaction(store: Store, begin = 'begin') {
  const client = new pg.Client(store.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(begin);
  const schema = JSON.parse(store.table('x').slice(0, -'.x'.length).replaceAll('""', '\\"')) as string;
  const run: Database['query'] = async ({ text }, params) => (await client.query(text, [...params])).rows;
  const batch: Database['batch'] = async (statement, shared, rows) => {
    if (rows.length === 0) return [];
    const columns = Object.keys(statement.columns) as (keyof (typeof rows)[number])[];
    return run(statement, [...shared, ...columns.map((column) => rows.map((row) => row[column]))]);
  };
  const database = { dialect: postgresDialect(schema), query: run, batch } as Database;
  return {
    workflows: new SqlWorkflows(database),
    queues: new SqlQueues(database),
    sql: async (text: string) => (await client.query(text)).rows,
    commit: () => client.query('commit'),
  };
}
