import { type LimitSettings, noPartition, type QueueSettings, type WhileWaiting } from '../../model/queues.js';
import type { QueueRecord } from '../contract/queues.js';
import type { Dialect, Row } from '../database.js';

/** Translates between rows of the table `queues` and queue records. */

const limitColumns = {
  concurrency: 'int',
  worker_concurrency: 'int',
  rate_limit_max: 'int',
  rate_limit_period_sec: 'double',
  partition_concurrency: 'int',
  partition_worker_concurrency: 'int',
  partition_rate_limit_max: 'int',
  partition_rate_limit_period_sec: 'double',
} as const;

export const settingTypes = {
  ...limitColumns,
  partitioned: 'bool',
  priority_enabled: 'bool',
  partition_queue: 'bool',
  while_waiting: 'text',
} as const;
export const settingColumns = Object.keys(settingTypes);

type SettingsRow = { readonly [K in keyof typeof settingTypes]: unknown };

export function toRow({ limits, partition, priority, whileWaiting }: QueueSettings): SettingsRow {
  return {
    concurrency: limits.concurrency,
    worker_concurrency: limits.workerConcurrency,
    rate_limit_max: limits.rateLimit?.max ?? null,
    rate_limit_period_sec: limits.rateLimit ? limits.rateLimit.perMs / 1000 : null,
    partition_concurrency: partition?.concurrency ?? null,
    partition_worker_concurrency: partition?.workerConcurrency ?? null,
    partition_rate_limit_max: partition?.rateLimit?.max ?? null,
    partition_rate_limit_period_sec: partition?.rateLimit ? partition.rateLimit.perMs / 1000 : null,
    partitioned: partition !== null,
    priority_enabled: priority,
    partition_queue: false,
    while_waiting: whileWaiting,
  };
}

export function toQueue(row: Row): QueueRecord {
  return {
    name: row.name as string,
    appName: (row.application_name as string | null) ?? null,
    settings: toSettings(row),
    paused: Boolean(row.paused),
    lockVersion: Number(row.turn),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}

/**
 * Reads the settings of a queue. The flag `partition_queue` of DBOS applies every limit to each partition. A queue
 * with a limit per partition is partitioned, even if its flag `partitioned` is not set.
 */
function toSettings(row: Row): QueueSettings {
  const limits = toLimits(row, '');
  const perPartition = toLimits(row, 'partition_');
  const priority = Boolean(row.priority_enabled);
  const whileWaiting = row.while_waiting as WhileWaiting;
  if (row.partition_queue) return { limits: noLimits, partition: limits, priority, whileWaiting };
  const partitioned = Boolean(row.partitioned) || Object.values(perPartition).some((limit) => limit !== null);
  return { limits, partition: partitioned ? perPartition : null, priority, whileWaiting };
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

export const queueColumns = `name, application_name, ${settingColumns.join(', ')}, paused, turn, created_at, updated_at`;

export function instant(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}

/**
 * Returns an expression for the partition key of a workflow on a queue, given the key that the workflow has, if any.
 * On a queue with partitions every workflow needs a key, because claims search by key. A workflow may have none if it
 * was enqueued or cancelled before the queue had partitions. `toSettings` in queue-rows.ts decides which queues have
 * partitions.
 */
export function partitionKey(d: Dialect, key: string, queueName: string): string {
  const limits = settingColumns.filter((column) => column.startsWith('partition_') && column !== 'partition_queue');
  return (
    `coalesce(${key}, (select '${noPartition}' from ${d.table('queues')} p where p.name = ${queueName} ` +
    `and (p.partitioned or p.partition_queue or coalesce(${limits.map((column) => `p.${column}`).join(', ')}) is not null)))`
  );
}
