import { internalQueue, type LimitSettings, noPartition, type QueueSettings } from '../../model/queues.js';
import type { Database, Dialect, Row } from '../database.js';
import type { PartitionStanding, QueueOverview, QueueRecord, Queues, RateWindow, Standing } from '../queues.js';
import { claimable, knownNames, queueOrder, runnableJson } from './dequeue.js';

/** The table `queues`, and the counts of waiting and running work that go with it. */
export class SqlQueues implements Queues {
  private readonly sql;
  private readonly counts;

  constructor(private readonly database: Database) {
    this.sql = settingsStatements(database.dialect);
    this.counts = countStatements(database.dialect);
  }

  async overview(): Promise<QueueOverview> {
    const rows = await this.database.query(this.counts.overview, []);
    const internal = rows.find((row) => row.name === internalQueue);
    return {
      queues: rows
        .filter((row) => row !== internal)
        .map((row) => ({ queue: toQueue(row), waiting: Boolean(row.waiting) })),
      internalWaiting: Boolean(internal?.waiting),
      nextDueAt: instant(internal?.next_due_at),
    };
  }

  async list(): Promise<QueueRecord[]> {
    return (await this.database.query(this.sql.list, [])).map(toQueue);
  }

  async register(params: Parameters<Queues['register']>[0]): Promise<QueueRecord | undefined> {
    const { name, settings, policy, appName, version, now } = params;
    await this.database.query(this.sql.register, [name, ...toColumns(settings), now, appName, policy, version]);
    const stored = (await this.list()).find((queue) => queue.name === name);
    if (stored?.settings.partition) await this.giveKeys(name);
    return stored;
  }

  async change(params: Parameters<Queues['change']>[0]): Promise<QueueRecord | undefined> {
    const { queue, settings, paused, now } = params;
    const values = [queue.name, ...toColumns(settings), now, paused, queue.updatedAt];
    const [row] = await this.database.query(this.sql.change, values);
    // Also if it had partitions before: then the change that brought them may have been cut short here.
    if (row && settings.partition) await this.giveKeys(queue.name);
    return row && toQueue(row);
  }

  async giveKeys(name: string): Promise<boolean> {
    return (await this.database.query(this.sql.giveKeys, [name, noPartition])).length > 0;
  }

  async remove(name: string): Promise<boolean> {
    return (await this.database.query(this.sql.remove, [name])).length > 0;
  }

  async unfinished(name: string): Promise<number> {
    const [row] = await this.database.query(this.counts.unfinished, [name]);
    return Number(row?.count ?? 0);
  }

  async standing(params: Parameters<Queues['standing']>[0]) {
    const { name, executorId, rate } = params;
    const [row] = await this.database.query(this.counts.standing, [name, ...rateParams(rate), executorId]);
    if (!row) return undefined;
    const standing = { ...toStanding(row), elsewhere: Number(row.elsewhere) };
    return { queue: toQueue(row), waiting: Boolean(row.waiting), standing };
  }

  async partitions(params: Parameters<Queues['partitions']>[0]): Promise<PartitionStanding[]> {
    const { queueName, writer, version, runnable, after, limit, waitingUpTo, rate, suspects } = params;
    const names = runnableJson(runnable);
    const values = [
      queueName,
      ...rateParams(rate),
      writer.appName,
      version,
      names,
      after,
      limit,
      waitingUpTo,
      suspects,
    ];
    const rows = await this.database.query(this.counts.partitions, values);
    return rows.map((row) => ({
      ...toStanding(row),
      partition: row.partition as string,
      waiting: Number(row.waiting),
    }));
  }

  async unclaimable(params: Parameters<Queues['unclaimable']>[0]) {
    const { queueName, writer, version, runnable } = params;
    const values = [queueName, writer.appName, version, runnableJson(runnable)];
    const rows = await this.database.query(this.counts.unclaimable, values);
    return rows.map((row) => ({
      name: (row.name as string | null) ?? '',
      version: row.application_version as string | null,
      workflowId: row.workflow_uuid as string,
    }));
  }
}

/**
 * The key of a workflow on a queue, given the one it has, if any. In a queue with partitions none is without one: nobody
 * would look for it. It may have been enqueued, or cancelled, when the queue had none; {@link toSettings} says which do.
 */
export function partitionKey(d: Dialect, key: string, queueName: string): string {
  const limits = settingColumns.filter((column) => column.startsWith('partition_') && column !== 'partition_queue');
  return (
    `coalesce(${key}, (select '${noPartition}' from ${d.table('queues')} p where p.name = ${queueName} ` +
    `and (p.partitioned or p.partition_queue or coalesce(${limits.map((column) => `p.${column}`).join(', ')}) is not null)))`
  );
}

/** A limit that is none starts counting at the end of time, and finds nothing. */
const never = Number.MAX_SAFE_INTEGER;

function rateParams(rate: RateWindow | null): unknown[] {
  return [rate?.since ?? never, (rate?.max ?? 1) - 1];
}

function toStanding(row: Row): Standing {
  return {
    running: Number(row.running),
    recentStarts: Number(row.recent_starts),
    nextStartAt: instant(row.oldest_that_counts),
  };
}

function instant(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}

const settingColumns = [
  'concurrency',
  'worker_concurrency',
  'rate_limit_max',
  'rate_limit_period_sec',
  'partition_concurrency',
  'partition_worker_concurrency',
  'partition_rate_limit_max',
  'partition_rate_limit_period_sec',
  'partitioned',
  'priority_enabled',
  'partition_queue',
];

function toColumns({ limits, partition, priority }: QueueSettings): unknown[] {
  const values = (given: LimitSettings | null) => [
    given?.concurrency ?? null,
    given?.workerConcurrency ?? null,
    given?.rateLimit?.max ?? null,
    given?.rateLimit ? given.rateLimit.perMs / 1000 : null,
  ];
  return [...values(limits), ...values(partition), partition !== null, priority, false];
}

function toQueue(row: Row): QueueRecord {
  return {
    name: row.name as string,
    appName: (row.application_name as string | null) ?? null,
    settings: toSettings(row),
    paused: Boolean(row.paused),
    turn: Number(row.turn),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}

/** DBOS's own flag for partitions makes every limit one per partition; a limit per partition makes partitions. */
function toSettings(row: Row): QueueSettings {
  const limits = toLimits(row, '');
  const perPartition = toLimits(row, 'partition_');
  // DBOS stores whether priorities are used; ours orders by them in any case and only refuses them on request.
  const priority = Boolean(row.priority_enabled);
  if (row.partition_queue) return { limits: noLimits, partition: limits, priority };
  const partitioned = Boolean(row.partitioned) || Object.values(perPartition).some((limit) => limit !== null);
  return { limits, partition: partitioned ? perPartition : null, priority };
}

const noLimits: LimitSettings = { concurrency: null, workerConcurrency: null, rateLimit: null };

function toLimits(row: Row, prefix: '' | 'partition_'): LimitSettings {
  const [max, perSec] = [row[`${prefix}rate_limit_max`], row[`${prefix}rate_limit_period_sec`]];
  return {
    concurrency: instant(row[`${prefix}concurrency`]),
    workerConcurrency: instant(row[`${prefix}worker_concurrency`]),
    rateLimit: max === null || perSec === null ? null : { max: Number(max), perMs: Math.round(Number(perSec) * 1000) },
  };
}

const queueColumns = `name, application_name, ${settingColumns.join(', ')}, paused, turn, created_at, updated_at`;

/** The unfinished workflows on a queue, in two parts: there is an index for each, and none for both. */
function unfinishedOn(d: Dialect, queue: string): string[] {
  const statuses = ["in ('ENQUEUED', 'PENDING')", "= 'DELAYED'"];
  return statuses.map((each) => `from ${d.table('workflow_status')} where queue_name = ${queue} and status ${each}`);
}

/** $13, or strictly later than the last change, so that it can be told from it. */
const laterThan = (last: string): string =>
  `case when ${last} >= cast($13 as bigint) then ${last} + 1 else cast($13 as bigint) end`;

function settingsStatements(d: Dialect) {
  const queues = d.table('queues');
  const workflows = d.table('workflow_status');
  const unfinished = unfinishedOn(d, '$1');
  const parameters = settingColumns.map((_, i) => `$${i + 2}`);
  const assignments = settingColumns.map((column) => `${column} = excluded.${column}`);
  const unchanged = settingColumns.map((column) => `q.${column} is not distinct from excluded.${column}`);
  const latest =
    `(select version_name from ${d.table('application_versions')} where application_name is null ` +
    'or application_name = $14 order by version_timestamp desc, created_at desc limit 1)';
  return {
    list: { name: 'queues.list', text: `select ${queueColumns} from ${queues} order by name` },
    // Another application's queue stays as it is, and so does one that is set alike: a turn would void others' plans.
    register: {
      name: 'queues.register',
      text: [
        `insert into ${queues} as q (name, ${settingColumns.join(', ')}, created_at, updated_at, application_name, turn)`,
        // A turn that no earlier queue of this name has had, so that a plan for that one is void.
        `values ($1, ${parameters.join(', ')}, cast($13 as bigint), cast($13 as bigint), $14, cast($13 as bigint))`,
        `on conflict (name) do update set ${assignments.join(', ')}, updated_at = ${laterThan('q.updated_at')},`,
        'application_name = coalesce(q.application_name, excluded.application_name), turn = q.turn + 1',
        'where (q.application_name is null or q.application_name = excluded.application_name',
        'or excluded.application_name is null)',
        `and ($15 = 'always' or ($15 = 'update-if-latest-version' and (cast($16 as text) is null or $16 = ${latest})))`,
        `and not (${unchanged.join(' and ')})`,
      ].join(' '),
    },
    change: {
      name: 'queues.change',
      text: [
        `update ${queues} set ${settingColumns.map((column, i) => `${column} = $${i + 2}`).join(', ')},`,
        `updated_at = ${laterThan('updated_at')},`,
        'paused = $14, turn = turn + 1 where name = $1 and updated_at = $15',
        `returning ${queueColumns}`,
      ].join(' '),
    },
    // Also to what is running: it comes back to the queue if its process dies.
    giveKeys: {
      name: 'queues.giveKeys',
      pinned: true as const,
      text: [
        `with keyless as materialized (select workflow_uuid as id from ${workflows} where queue_partition_key is null`,
        `and workflow_uuid in (${unfinished.map((each) => `select workflow_uuid ${each}`).join(' union all ')})`,
        `order by ${d.lockOrder('workflow_uuid')} ${d.forUpdate})`,
        `update ${workflows} set queue_partition_key = $2 where workflow_uuid in (select id from keyless)`,
        'returning 1 as given',
      ].join(' '),
    },
    remove: {
      name: 'queues.remove',
      // Waits for those who are enqueueing, who hold the queue too: only then is it known what is on it.
      ...(d.locksRows && { first: `select 1 from ${queues} where name = $1 for update` }),
      pinned: true as const,
      text:
        `delete from ${queues} where name = $1 ` +
        `${unfinished.map((each) => `and not exists (select 1 ${each})`).join(' ')} returning name`,
    },
  };
}

function countStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  // One probe of the index. As EXISTS it may be planned as a hash table of everything that waits anywhere.
  const hasWaiting = (queue: string): string =>
    `(select count(*) from (select 1 from ${workflows} where status = 'ENQUEUED' and queue_name = ${queue} limit 1) as t) > 0`;
  return {
    overview: {
      name: 'queues.overview',
      pinned: true as const,
      text: [
        `select ${queueColumns}, ${hasWaiting('q.name')} as waiting, cast(null as bigint) as next_due_at`,
        `from ${d.table('queues')} q union all`,
        `select '${internalQueue}', ${'null, '.repeat(queueColumns.split(',').length - 1)}`,
        `${hasWaiting(`'${internalQueue}'`)},`,
        `(select min(delay_until_epoch_ms) from ${workflows} where status = 'DELAYED')`,
      ].join(' '),
    },
    unfinished: {
      name: 'queues.unfinished',
      pinned: true as const,
      text: `select ${unfinishedOn(d, '$1')
        .map((each) => `(select count(*) ${each})`)
        .join(' + ')} as count`,
    },
    standing: {
      name: 'queues.standing',
      pinned: true as const,
      text:
        `select ${queueColumns}, ${hasWaiting('$1')} as waiting, ${standingColumns(d, '$1', '')}, ` +
        `(select count(*) from ${workflows} s where ${d.pendingOnQueue('s')} and s.queue_name = $1 ` +
        `and s.executor_id is distinct from cast($4 as text)) as elsewhere from ${d.table('queues')} q where name = $1`,
    },
    partitions: partitionsStatement(d),
    unclaimable: {
      name: 'queues.unclaimable',
      pinned: true as const,
      text: [
        `with ${knownNames(d, '$4')}, first_ones as (select name, application_version, workflow_uuid`,
        `from ${workflows} where status = 'ENQUEUED' and queue_name = $1`,
        `and not coalesce((${claimable(d, { app: '$2', version: '$3', suspects: 'false' })}`,
        `or ${claimable(d, { app: '$2', version: '$3', suspects: 'true' })}), false) limit 1000)`,
        'select name, application_version, min(workflow_uuid) as workflow_uuid from first_ones',
        'group by name, application_version order by name, application_version limit 20',
      ].join(' '),
    },
  };
}

/** $2: start of the rate limit's period, $3: how many starts it allows, less one. */
function standingColumns(d: Dialect, queue: string, partition: string): string {
  const workflows = d.table('workflow_status');
  const place: [string, string][] = [['s.queue_name', queue]];
  if (partition) place.push(['s.queue_partition_key', partition]);
  const starts =
    `from ${workflows} s where s.rate_limited = true and ` +
    d.equalAndAfter(place, ['s.started_at_epoch_ms', 'cast($2 as bigint)']);
  return [
    `(select count(*) from ${workflows} s where ${d.pendingOnQueue('s')} and s.queue_name = ${queue}`,
    `${partition && `and s.queue_partition_key = ${partition}`}) as running,`,
    `(select count(*) ${starts}) as recent_starts,`,
    `(select s.started_at_epoch_ms ${starts} order by s.started_at_epoch_ms desc limit 1 offset cast($3 as int))`,
    'as oldest_that_counts',
  ].join(' ');
}

/**
 * The keys are found one after the other, each by a probe of the index: what this costs grows with the partitions that
 * are looked at, not with what waits in them.
 *
 * Parameters: $1 queue, $2 and $3 rate, $4 app, $5 version, $6 names, $7 after, $8 how many, $9 waiting up to,
 * $10 suspects.
 */
function partitionsStatement(d: Dialect) {
  const workflows = d.table('workflow_status');
  const waiting = `from ${workflows} n where n.status = 'ENQUEUED' and n.queue_name = $1 and n.queue_partition_key`;
  const takeable = (scope: string): string =>
    `(select count(*) from (select 1 from ${workflows} where status = 'ENQUEUED' and queue_name = $1 and ${scope} ` +
    `and ${claimable(d, { app: '$4', version: '$5', suspects: '$10' })} ` +
    // In the order of the index for partitions: without it the planner may read the whole queue for each of them.
    `order by ${queueOrder(d)} limit cast($9 as int)) as t)`;
  return {
    name: 'queues.partitions',
    pinned: true as const,
    text: [
      `with recursive ${knownNames(d, '$6')}, keys(k) as (`,
      `select min(n.queue_partition_key) ${waiting} > $7 union all`,
      `select (select min(n.queue_partition_key) ${waiting} > keys.k) from keys where keys.k is not null)`,
      `select k as partition, ${takeable('queue_partition_key = k')} as waiting, ${standingColumns(d, '$1', 'k')}`,
      'from keys where k is not null limit cast($8 as int)',
    ].join(' '),
  };
}
