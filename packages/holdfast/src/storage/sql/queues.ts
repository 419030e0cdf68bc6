import { internalQueue, noPartition } from '../../model/queues.js';
import { afterChange } from '../contract/failure.js';
import type {
  BusyQueues,
  LimitUsage,
  PartitionUsage,
  QueueOverview,
  QueueRecord,
  Queues,
  RateWindow,
  WaitingWork,
} from '../contract/queues.js';
import type { DebouncedWorkflow, DedupKey, Dequeued, DequeueParams, EnqueuedWorkflow } from '../contract/storage.js';
import { type Database, type Dialect, everyRow, type Row } from '../database.js';
import { Debounce } from './debounce.js';
import { Dequeue } from './dequeue.js';
import { Enqueue } from './enqueue.js';
import { countStatements, unfinishedOn } from './queue-counts.js';
import { instant, queueColumns, settingColumns, settingTypes, toQueue, toRow } from './queue-rows.js';
import { toKey } from './rows.js';
import { runnableJson } from './runnable-workflows.js';
import { latestVersion } from './versions.js';

/** The table `queues`, and the counts of waiting and running work on queues. */
export class SqlQueues implements Queues {
  private readonly sql;
  private readonly counts;
  private readonly enqueues: Enqueue;
  private readonly debounces: Debounce;
  private readonly dequeues: Dequeue;

  constructor(private readonly database: Database) {
    this.enqueues = new Enqueue(database);
    this.debounces = new Debounce(database);
    this.dequeues = new Dequeue(database);
    this.sql = settingsStatements(database.dialect);
    this.counts = countStatements(database.dialect);
  }

  dequeue(params: DequeueParams): Promise<Dequeued> {
    return this.dequeues.claim(params);
  }

  enqueueMany(rows: readonly EnqueuedWorkflow[]): Promise<Set<string>> {
    return this.enqueues.many(rows);
  }

  enqueueAll(rows: readonly EnqueuedWorkflow[]): Promise<Set<string>> {
    return this.enqueues.all(rows);
  }

  debounce(row: DebouncedWorkflow) {
    return this.debounces.call(row);
  }

  holders(keys: readonly DedupKey[]) {
    return this.enqueues.holders(keys);
  }

  promoteDue(params: { readonly now: number; readonly limit: number }): Promise<string[]> {
    return this.enqueues.promoteDue(params);
  }

  setDelay(params: { workflowId: string; delayUntil: number; now: number }): Promise<string | undefined> {
    return this.enqueues.setDelay(params);
  }

  setPriority(params: { workflowId: string; priority: number; now: number }): Promise<string | undefined> {
    return this.enqueues.setPriority(params);
  }

  async overview(): Promise<QueueOverview> {
    const rows = await this.database.query(this.counts.overview, []);
    const internal = rows.find((row) => row.name === internalQueue);
    return {
      queues: rows.filter((row) => row !== internal).map((row) => ({ queue: toQueue(row), ...toWaiting(row) })),
      internal: toWaiting(internal),
      nextDueAt: instant(internal?.next_due_at),
    };
  }

  async busy(): Promise<BusyQueues> {
    const rows = await this.database.query(this.counts.busy, []);
    return {
      queues: rows.flatMap(({ name, retried, turn }) =>
        name === null
          ? []
          : [{ name: String(name), retried: Boolean(retried), lockVersion: turn === null ? null : Number(turn) }],
      ),
      nextDueAt: instant(rows.find(({ name }) => name === null)?.next_due_at),
    };
  }

  async hasWaiting(name: string): Promise<boolean> {
    const [row] = await this.database.query(this.counts.waits, [name]);
    return Boolean(row?.waiting);
  }

  async list(): Promise<QueueRecord[]> {
    return (await this.database.query(this.sql.list, [])).map(toQueue);
  }

  async listWithCounts(name: string | null) {
    const rows = await this.database.query(this.counts.counted, [name]);
    return rows.map((row) => ({
      ...toQueue(row),
      waiting: Number(row.waiting),
      running: Number(row.running),
      suspended: Number(row.suspended),
      delayed: Number(row.delayed),
    }));
  }

  async register(params: Parameters<Queues['register']>[0]): Promise<QueueRecord[]> {
    const { queues, policy, appName, version, now } = params;
    const rows = queues.map(({ name, settings }) => ({ name, ...toRow(settings) }));
    await this.database.batch(this.sql.register, [now, appName, policy, version], rows);
    const names = new Set(queues.map((queue) => queue.name));
    const stored = (await afterChange(() => this.list())).filter((queue) => names.has(queue.name));
    const partitioned = stored.filter((queue) => queue.settings.partition).map((queue) => queue.name);
    if (partitioned.length > 0) await afterChange(() => this.assignPartitionKeys(partitioned));
    return stored;
  }

  async change(params: Parameters<Queues['change']>[0]): Promise<QueueRecord | undefined> {
    const { queue, settings, paused, now } = params;
    const values = [queue.name, ...Object.values(toRow(settings)), now, paused, queue.updatedAt];
    const [row] = await this.database.query(this.sql.change, values);
    // Keys are assigned even if the queue was partitioned before: an earlier change may have been interrupted before it
    // assigned the keys.
    if (row && settings.partition) await afterChange(() => this.assignPartitionKeys([queue.name]));
    return row && toQueue(row);
  }

  async assignPartitionKeys(names: readonly string[]): Promise<boolean> {
    const values = [this.database.dialect.list(names), noPartition];
    const given = await this.database.query(this.sql.giveKeys, values).catch((error) => {
      // Another session keeps a lock on a row. Such rows are skipped; the next process that works on the queue assigns
      // their keys later.
      if (this.database.classify(error) !== 'locked') throw error;
      return this.database.query(this.sql.giveKeysUnlocked, values);
    });
    return given.length > 0;
  }

  async remove(name: string): Promise<boolean> {
    return (await this.database.query(this.sql.remove, [name])).length > 0;
  }

  async unfinished(name: string): Promise<number> {
    const [row] = await this.database.query(this.counts.unfinished, [name]);
    return Number(row?.count ?? 0);
  }

  async usage(params: Parameters<Queues['usage']>[0]) {
    const { name, executorId, rate } = params;
    const [row] = await this.database.query(this.counts.usage, [name, ...rateParams(rate), executorId]);
    if (!row) return undefined;
    const usage = { ...toUsage(row), elsewhere: Number(row.elsewhere) };
    return { queue: toQueue(row), waiting: Boolean(row.waiting), usage };
  }

  async partitions(params: Parameters<Queues['partitions']>[0]): Promise<PartitionUsage[]> {
    const { queueName, writer, version, runnable, after, limit, waitingUpTo, rate, suspects } = params;
    const names = runnableJson(runnable);
    const values = [queueName, ...rateParams(rate), writer.appName, version, names, after, limit, waitingUpTo];
    const statement = this.counts.partitions[suspects ? 'suspect' : 'healthy'];
    const rows = await this.database.query(statement, values);
    return rows.map((row) => ({
      ...toUsage(row),
      partition: row.partition as string,
      waiting: Number(row.waiting),
    }));
  }

  async onUnknownQueues(appName: string) {
    const rows = await this.database.query(this.counts.stray, [appName]);
    return rows.map((row) => ({ queueName: row.queue_name as string, workflowId: row.workflow_uuid as string }));
  }

  async unclaimable(params: Parameters<Queues['unclaimable']>[0]) {
    const { queueName, writer, version, runnable } = params;
    const values = [queueName, writer.appName, version, runnableJson(runnable)];
    const rows = await this.database.query(this.counts.unclaimable, values);
    return rows.map((row) => ({
      ...toKey(row),
      version: row.application_version as string | null,
      workflowId: row.workflow_uuid as string,
    }));
  }
}

/** Start of the period if there is no rate limit: so far in the future that no start is counted. */
const never = Number.MAX_SAFE_INTEGER;

function rateParams(rate: RateWindow | null): unknown[] {
  return [rate?.since ?? never, (rate?.max ?? 1) - 1];
}

function toUsage(row: Row): LimitUsage {
  return {
    running: Number(row.running),
    recentStarts: Number(row.recent_starts),
    nextStartAt: instant(row.oldest_that_counts),
  };
}

/**
 * Returns `now`, or one millisecond after `last` if `now` is not later, so that two changes never have the same time.
 */
const laterThan = (last: string, now: string): string =>
  `case when ${last} >= cast(${now} as bigint) then ${last} + 1 else cast(${now} as bigint) end`;

function settingsStatements(d: Dialect) {
  const queues = d.table('queues');
  const unfinished = unfinishedOn(d);
  return {
    list: {
      name: 'queues.list',
      text: `select ${queueColumns} from ${queues} where ${everyRow('name')} order by name`,
    },
    register: registerStatement(d),
    change: {
      name: 'queues.change',
      text: [
        `update ${queues} set ${settingColumns.map((column, i) => `${column} = $${i + 2}`).join(', ')},`,
        `updated_at = ${laterThan('updated_at', `$${settingColumns.length + 2}`)},`,
        `paused = $${settingColumns.length + 3}, turn = turn + 1`,
        `where name = $1 and updated_at = $${settingColumns.length + 4}`,
        `returning ${queueColumns}`,
      ].join(' '),
    },
    giveKeys: { name: 'queues.giveKeys', pinned: true as const, text: giveKeysText(d, d.forUpdate) },
    giveKeysUnlocked: {
      name: 'queues.giveKeys-unlocked',
      pinned: true as const,
      text: giveKeysText(d, d.forUpdateSkipLocked),
    },
    remove: {
      name: 'queues.remove',
      // Waits for the transactions that are enqueueing, which also lock the queue. Only then can the statement see all
      // work on the queue.
      ...(d.closeQueue && { first: d.closeQueue('$1') }),
      pinned: true as const,
      text:
        `delete from ${queues} where name = $1 ` +
        `${unfinished.map((each) => `and not exists (select 1 ${each})`).join(' ')} returning name`,
    },
  };
}

/** Running workflows get a key too: they return to the queue if their process dies. */
function giveKeysText(d: Dialect, lock: string): string {
  const workflows = d.table('workflow_status');
  const unfinished = unfinishedOn(d, d.anyOf('w.queue_name', '$1'));
  return [
    `with keyless as materialized (select workflow_uuid as id from ${workflows} where queue_partition_key is null`,
    `and workflow_uuid in (${d.few(unfinished.map((each) => `select w.workflow_uuid ${each}`).join(' union all '))})`,
    `order by ${d.lockOrder('workflow_uuid')} ${lock})`,
    `update ${workflows} set queue_partition_key = $2 where workflow_uuid in (select id from keyless)`,
    'returning 1 as given',
  ].join(' ');
}

/**
 * Stores queues. A queue of another application stays unchanged. A queue that has the same settings already also stays
 * unchanged, because a new lock version would invalidate the claims that other processes have planned.
 *
 * Parameters: $1 now, $2 app, $3 policy, $4 version.
 */
function registerStatement(d: Dialect) {
  const columns = { name: 'text', ...settingTypes } as const;
  const assignments = settingColumns.map((column) => `${column} = excluded.${column}`);
  const unchanged = settingColumns.map((column) => `q.${column} is not distinct from excluded.${column}`);
  const latest = latestVersion(d, '$2');
  return {
    name: 'queues.register',
    columns,
    text: [
      `insert into ${d.table('queues')} as q`,
      `(name, ${settingColumns.join(', ')}, created_at, updated_at, application_name, turn)`,
      // No earlier queue of this name had this lock version, so claims that were planned for a deleted queue are
      // invalid.
      `select r.name, ${settingColumns.map((column) => `r.${column}`).join(', ')},`,
      `cast($1 as bigint), cast($1 as bigint), $2, cast($1 as bigint) from ${d.rows('r', columns, 5)} where true`,
      // All launches use one order: two launches that store the same queues wait for each other instead of deadlocking.
      `order by ${d.lockOrder('r.name')}`,
      `on conflict (name) do update set ${assignments.join(', ')}, updated_at = ${laterThan('q.updated_at', '$1')},`,
      'application_name = coalesce(q.application_name, excluded.application_name), turn = q.turn + 1',
      'where (q.application_name is null or q.application_name = excluded.application_name',
      'or excluded.application_name is null)',
      `and ($3 = 'always' or ($3 = 'update-if-latest-version' and (cast($4 as text) is null or $4 = ${latest})))`,
      `and not (${unchanged.join(' and ')})`,
    ].join(' '),
  };
}

function toWaiting(row: Row | undefined): WaitingWork {
  return { waiting: Boolean(row?.waiting), retried: Boolean(row?.retried) };
}
