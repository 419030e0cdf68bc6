import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { internalQueue } from '../../src/model/queues.js';
import type { NewRetry } from '../../src/storage/contract/retries.js';
import type {
  After,
  Claim,
  ClaimedRecord,
  DequeueParams,
  FinishedWorkflow,
  NewChild,
  NewStep,
  NewWorkflow,
  Storage,
  Writer,
} from '../../src/storage/contract/storage.js';
import type { RecoveryDecision, Takeover } from '../../src/storage/contract/takeovers.js';
import { openStorage } from '../../src/storage/open.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { sqliteDialect } from '../../src/storage/sqlite/dialect.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';

/** A database under the contract suite. Its tables are empty at the beginning of each test. */
export interface Store {
  readonly backend: Backend['name'];
  readonly storage: Storage;
  readonly url: string;
  /** Opens the same database again, which looks like another process to the database. */
  another(): Promise<Storage>;
  /** The SQL name of a system table, for tests that write rows which the contract itself never writes. */
  table(name: string): string;
  sql(text: string): Promise<Record<string, unknown>[]>;
}

/** A schema name that breaks every statement that does not quote it. */
const awkwardSchema = 'we"ird; Schema';

/** The contract suite runs on SQLite, on Postgres, and on Postgres in a schema whose name needs quotes. */
export function describeStorage(
  title: string,
  suite: (store: Store) => void,
  backends?: readonly Backend['name'][],
): void {
  const eachSchema = (backend: Backend): void => {
    describe('in the usual schema', () => suite(openedStore(backend, 'dbos')));
    if (backend.name === 'sqlite') return;
    describe(`in the schema ${awkwardSchema}`, () => suite(openedStore(backend, awkwardSchema)));
  };
  describeBackends(title, eachSchema, backends);
}

function openedStore(backend: Backend, schema: string): Store {
  const dialect = backend.name === 'sqlite' ? sqliteDialect : postgresDialect(schema);
  const opened: Storage[] = [];
  let url = '';
  let raw: Raw;
  const open = async (): Promise<Storage> => {
    const storage = await openStorage({ url, schema, migrate: true, logger: silent, applicationName: 'contract' });
    opened.push(storage);
    return storage;
  };
  beforeAll(async () => {
    url = await backend.newDatabase();
    await open();
    raw = backend.name === 'sqlite' ? rawSqlite(url) : await rawPostgres(url);
  });
  beforeEach(async () => {
    for (const table of ['operation_outputs', 'workflow_status', 'application_versions']) {
      await raw.sql(`delete from ${dialect.table(table)}`);
    }
  });
  afterAll(async () => {
    await Promise.all(opened.map((storage) => storage.close()));
    await raw.close();
  });
  return {
    backend: backend.name,
    get storage() {
      return opened[0] as Storage;
    },
    get url() {
      return url;
    },
    another: open,
    table: (name) => dialect.table(name),
    sql: (text) => raw.sql(text),
  };
}

interface Raw {
  sql(text: string): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

function rawSqlite(url: string): Raw {
  const db = openSqlite(url);
  return {
    sql: async (text) => db.query(text),
    close: async () => void db.close(),
  };
}

async function rawPostgres(url: string): Promise<Raw> {
  const client = new pg.Client(url);
  await client.connect();
  return { sql: async (text) => (await client.query(text)).rows, close: () => client.end() };
}

export const writer: Writer = { executorId: 'here', appName: 'app' };

export function newWorkflow(workflowId: string, more: Partial<NewWorkflow> = {}): NewWorkflow {
  return {
    workflowId,
    name: 'greet',
    className: null,
    configName: null,
    inputs: '[]',
    serialization: 'js_superjson',
    owner: `owner of ${workflowId}`,
    version: 'v1',
    createdAt: 1000,
    timeoutMs: null,
    deadlineAt: null,
    user: null,
    roles: null,
    assumedRole: null,
    attributes: null,
    ...more,
  };
}

export function newChild(workflowId: string, parentWorkflowId: string, more: Partial<NewChild> = {}): NewChild {
  return {
    ...newWorkflow(workflowId),
    parentWorkflowId,
    parentOwner: `owner of ${parentWorkflowId}`,
    ...first,
    detached: false,
    ...more,
  };
}

/** The predecessors of a row that has none. */
export const first: After = { afterStep: null, afterSeq: null, afterAlso: null };

export function newStep(workflowId: string, stepNumber: number, more: Partial<NewStep> = {}): NewStep {
  return {
    workflowId,
    stepNumber,
    owner: `owner of ${workflowId}`,
    name: 'work',
    output: '"done"',
    error: null,
    serialization: 'js_superjson',
    childWorkflowId: null,
    startedAt: 1100,
    completedAt: 1200,
    completionSeq: stepNumber,
    requestedAfter: null,
    ...first,
    ...more,
  };
}

export function finished(workflowId: string, more: Partial<FinishedWorkflow> = {}): FinishedWorkflow {
  return {
    workflowId,
    owner: `owner of ${workflowId}`,
    status: 'SUCCESS',
    output: '"result"',
    error: null,
    underWay: null,
    ...first,
    completedAt: 2000,
    ...more,
  };
}

export function newRetry(more: Partial<NewRetry> = {}): NewRetry {
  return {
    workflowId: 'a',
    incarnation: 'owner of a',
    createdAt: 1000,
    before: null,
    after: '[1]',
    dropped: '[{"n":1},{"n":3}]',
    version: null,
    queueName: internalQueue,
    now: 9000,
    ...more,
  };
}

export function newClaim(more: Partial<Claim> = {}): Claim {
  return {
    writer: { executorId: 'claimer', appName: 'app' },
    owner: 'claim',
    version: 'v1',
    runnable: [{ name: 'greet', maxRecoveryAttempts: 100 }],
    now: 5000,
    limit: 100,
    ...more,
  };
}

/** Starts workflows with these IDs, each a millisecond younger than the previous one. */
export async function start(store: Store, ...workflowIds: readonly string[]): Promise<void> {
  const rows = workflowIds.map((id, i) => newWorkflow(id, { createdAt: 1000 + i }));
  await store.storage.workflows.insertMany(writer, rows);
}

export async function statuses(store: Store): Promise<Record<string, string>> {
  const rows = await store.storage.workflows.list({});
  return Object.fromEntries(rows.map((row) => [row.workflowId, row.status]));
}

export async function idsOf(found: Promise<readonly { readonly workflowId: string }[]>): Promise<string[]> {
  return (await found).map((row) => row.workflowId).sort();
}

/** Takes work from a queue without settings: first the usual work, then work with half of its attempts used. */
export async function dequeue(
  storage: Storage,
  claim: Claim & Partial<DequeueParams> & { readonly queueName: string },
): Promise<ClaimedRecord[]> {
  const { limit, ...rest } = claim;
  const common = { portions: [{ partition: null, n: limit }], byPartition: false, lockVersion: null, exclusive: false };
  const take = async (suspects: boolean) =>
    (await storage.queues.dequeue({ ...common, rateLimited: false, suspects, ...rest })).claimed;
  return [...(await take(false)), ...(await take(true))];
}

/** The parameters of a takeover that resumes the PENDING work of executor `here`. */
export function newTakeover(more: Partial<Takeover> = {}): Takeover & { readonly queueName: string } {
  const executors = [{ executorId: 'here', incarnation: null }];
  const free = { appName: 'app', version: 'v1', live: [], executors };
  return { free, decisions: [fate()], now: 4000, limit: 100, queueName: internalQueue, ...more };
}

export function fate(more: Partial<RecoveryDecision> = {}): RecoveryDecision {
  const key = { name: 'greet', className: null, configName: null };
  return {
    ...key,
    maxAttempts: 100,
    tooOld: null,
    exceeded: null,
    notResumed: null,
    stallReason: null,
    resumes: true,
    ...more,
  };
}

/** Takes work over from these executors, and then claims it from the queue that it was put back on. */
export async function takeOver(
  storage: Storage,
  claim: Claim & { readonly executorIds?: readonly string[] },
): Promise<ClaimedRecord[]> {
  const { executorIds = ['here'], version, writer: by, runnable, now, limit } = claim;
  const executors = executorIds.map((executorId) => ({ executorId, incarnation: null }));
  const free = { appName: by.appName, version, live: [], executors };
  const decisions = runnable.map(({ name, className = null, configName = null, maxRecoveryAttempts: maxAttempts }) =>
    fate({ name, className, configName, maxAttempts }),
  );
  await storage.takeovers.putBack({ free, decisions, now, limit, queueName: internalQueue });
  return dequeue(storage, { ...claim, queueName: internalQueue });
}
