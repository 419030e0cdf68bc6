import { enqueueBlock } from '../database.js';
import {
  announcedBySender,
  createEnqueueWorkflow,
  createOwnTrigger,
  hasNoTrigger,
  hasOtherEnqueueWorkflow,
  messagesTrigger,
  passOverAnnounced,
} from './functions.js';
import {
  indexes,
  messageIndexes,
  queueIndexes,
  slotIndexes,
  versionIndexes,
  waitingIndexes,
} from './holdfast-indexes.js';
import type { Ddl, Migration } from './migration.js';
import { createQueueLocks } from './queue-locks.js';
import { hasStorageSettings, storageSettings } from './storage-settings.js';

/**
 * What Holdfast adds to the shared layout, counted in `holdfast_migrations`. DBOS ignores these columns, and none of
 * them changes what one of its own means. All indexes are partial: a write pays only for the rows they hold.
 */
export const holdfastMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'completion order, detached children, status reasons',
    change: (d) => [
      ...d.addColumns('operation_outputs', 'completion_seq integer'),
      ...d.addColumns('workflow_status', `detached ${d.boolean} not null default ${d.false}`, 'status_reason text'),
    ],
  },
  { version: 2, name: 'indexes for sweeps', indexes },
  {
    version: 3,
    name: 'queue order, pauses, turns, partitions; schedules',
    change: (d) => [
      ...enqueueOrder(d),
      ...d.addColumns(
        'queues',
        `paused ${d.boolean} not null default ${d.false}`,
        `partitioned ${d.boolean} not null default ${d.false}`,
        `turn ${d.bigint} not null default 0`,
      ),
      ...d.addColumns('workflow_schedules', `active_since ${d.bigint}`, 'catch_up text', 'catch_up_limit integer'),
    ],
  },
  { version: 4, name: 'indexes for queues', indexes: queueIndexes, dropsIndexes: ['idx_holdfast_enqueued'] },
  { version: 5, name: 'order of messages', change: messageOrder },
  { version: 6, name: 'index for messages', indexes: messageIndexes },
  {
    version: 7,
    name: 'indexes for queues by version',
    indexes: versionIndexes,
    dropsIndexes: ['idx_holdfast_queue', 'idx_holdfast_partition'],
  },
  {
    version: 8,
    name: 'a version by the name that its application gave it',
    change: (d) => d.addColumns('application_versions', 'name_in_app text'),
  },
  {
    version: 9,
    name: 'executors',
    change: (d) => [
      `create table if not exists ${d.table('executors')} (incarnation text not null primary key, executor_id text not null, ` +
        'application_name text not null, application_version text not null, host text not null, ' +
        `pid ${d.bigint} not null, process_start text, ttl_ms ${d.bigint} not null, lock_key text, ` +
        `started_at ${d.bigint} not null, heartbeat_at ${d.bigint} not null, beats ${d.bigint} not null, takeovers ${d.bigint} not null default 0)`,
    ],
    indexes: [{ name: 'idx_holdfast_executors', table: 'executors', on: 'application_name' }],
  },
  {
    version: 10,
    name: 'first start of what was taken over',
    change: (d) => d.addColumns('workflow_status', `first_started_at ${d.bigint}`),
  },
  {
    version: 11,
    name: 'slots that are given back while a workflow waits',
    change: (d) => [
      ...d.addColumns('workflow_status', 'resting_owner text'),
      ...d.addColumns('queues', "while_waiting text not null default 'hold'"),
    ],
    indexes: slotIndexes,
    dropsIndexes: ['idx_holdfast_running'],
  },
  {
    version: 12,
    name: 'which code can work on this layout',
    change: (d) => d.addColumns('holdfast_migrations', `oldest_code ${d.bigint}`),
    oldestCode: 12,
  },
  {
    version: 13,
    name: 'forks, and telling apart the workflows that had an ID one after the other',
    change: (d) => [
      ...d.addColumns('workflow_status', 'seed text', `began_at ${d.bigint}`, 'incarnation text'),
      // Set apart from adding the column, which would fill it for every row. Rows that are there keep none.
      ...(d.name === 'sqlite'
        ? []
        : [`alter table ${d.table('workflow_status')} alter column incarnation set default gen_random_uuid()::text`]),
    ],
    // Who has a workflow on record as a child: its parent, and whoever was forked from that.
    indexes: [
      {
        name: 'idx_holdfast_child',
        table: 'operation_outputs',
        on: 'child_workflow_id',
        where: 'child_workflow_id is not null',
      },
    ],
    // Code before it would draw other numbers for a fork than its original did.
    oldestCode: 13,
  },
  {
    version: 14,
    name: 'indexes for what waits that no other passes for',
    indexes: waitingIndexes,
    dropsIndexes: ['idx_holdfast_queue_version', 'idx_holdfast_partition_version'],
    // Code before it would find what waits, but by reading all of it.
    oldestCode: 14,
  },
  {
    version: 16,
    name: 'where DBOS 5 keeps inputs and outputs',
    change: payloadTables,
    // Code before it keeps its own where it always did.
    oldestCode: 14,
  },
  {
    version: 17,
    name: 'enqueue_workflow refuses a negative delay',
    only: 'postgres',
    unless: (d) => hasOtherEnqueueWorkflow(d, 105),
    change: (d) => [createEnqueueWorkflow(d, 105)],
    oldestCode: 14,
  },
  {
    version: 18,
    name: 'retries of workflows',
    change: (d) => [
      ...d.addColumns('operation_outputs', 'requested_after integer'),
      ...d.addColumns('workflow_status', 'retries text'),
      ...d.addColumns('notifications', 'consumed_by integer'),
    ],
    // Steps that older code records do without, and a retry is the more careful with them.
    oldestCode: 14,
  },
  {
    version: 19,
    name: 'attempts of steps',
    change: (d) => [
      `create table if not exists ${d.table('step_attempts')} (` +
        `workflow_uuid text not null references ${d.table('workflow_status')} (workflow_uuid) on delete cascade, ` +
        `function_id integer not null, attempt integer not null, next_at ${d.bigint}, token text not null, ` +
        "interrupted text not null default '', primary key (workflow_uuid, function_id))",
    ],
    // Older code counts attempts in memory, as it did.
    oldestCode: 14,
  },
  {
    version: 20,
    name: 'what was under way when a workflow failed',
    change: (d) => d.addColumns('workflow_status', 'under_way text'),
    // Of workflows that older code ends it is not known.
    oldestCode: 14,
  },
  {
    version: 21,
    name: 'messages that their sender announces',
    change: (d) => d.addColumns('notifications', `${announcedBySender} ${d.boolean}`),
    // Older code leaves the column empty, and the trigger announces what it sends.
    oldestCode: 14,
  },
  {
    version: 22,
    name: 'the trigger that announces messages passes over those of 21',
    only: 'postgres',
    unless: (d) => hasNoTrigger(d, messagesTrigger),
    change: (d) => [passOverAnnounced(d, messagesTrigger)],
    oldestCode: 14,
  },
  {
    version: 23,
    name: 'queues are held by advisory locks',
    only: 'postgres',
    change: createQueueLocks,
    // Older code locks the row, for which edits and deletions wait as before; its own edits wait by way of the triggers.
    oldestCode: 14,
  },
  {
    version: 24,
    name: 'messages of DBOS and from SQL are announced to those who wait for them',
    only: 'postgres',
    // Where that trigger is not wanted, this one is not either.
    unless: (d) => hasNoTrigger(d, messagesTrigger),
    change: createOwnTrigger,
    // Older code is not concerned: it hears of messages by the other trigger.
    oldestCode: 14,
  },
  {
    version: 25,
    name: 'the queues that an executor works on',
    change: (d) => d.addColumns('executors', 'listens text'),
    // Older code leaves it null, and is taken to work on all queues.
    oldestCode: 14,
  },
  {
    version: 26,
    name: 'who else uses the database',
    change: (d) => d.addColumns('holdfast_migrations', 'compat text'),
    // Older code plans its statements without the indexes that are dropped then, some of them worse.
    oldestCode: 14,
  },
  {
    version: 27,
    name: 'room on pages, and the pace of autovacuum',
    only: 'postgres',
    unless: hasStorageSettings,
    change: storageSettings,
    oldestCode: 14,
  },
];

/**
 * The tables in which DBOS 5 keeps inputs and outputs of its workflows (its migration 109), in its own words, so that a DBOS
 * that migrates a database of ours on finds them as it would have made them. Made even without any DBOS: one statement
 * serves all databases, and none has to know whether a DBOS came along since the launch.
 */
function payloadTables(d: Ddl): string[] {
  const tables = { workflow_input: 'inputs text', workflow_output: 'output text, error text' };
  const creates = Object.entries(tables).map(
    ([name, values]) =>
      `create table if not exists ${d.table(name)} (workflow_uuid text not null primary key, ${values}, ` +
      `retention_timestamp ${d.bigint} not null default ${d.nowMs})`,
  );
  if (d.name === 'postgres') return creates;
  const clear = Object.keys(tables).map((name) => `delete from ${name} where workflow_uuid = old.workflow_uuid;`);
  // Postgres deletes them in the statement that deletes the workflow.
  return [
    ...creates,
    `create trigger if not exists holdfast_payloads after delete on workflow_status begin ${clear.join(' ')} end`,
  ];
}

/**
 * A number that grows with each message, whoever sends it: their order, exact where milliseconds are not. On SQLite the
 * number of the row itself is one.
 */
function messageOrder(d: Ddl): string[] {
  if (d.name === 'sqlite') return [];
  const sequence = d.table('holdfast_message_seq');
  return [
    `create sequence if not exists ${sequence}`,
    ...d.addColumns('notifications', `send_seq ${d.bigint}`),
    `alter table ${d.table('notifications')} alter column send_seq ` +
      `set default nextval('${sequence.replaceAll("'", "''")}')`,
  ];
}

/**
 * A number that grows with each workflow that is enqueued: the order of a queue, exact where milliseconds are not.
 * On Postgres it is a default as well, so that what DBOS or its SQL functions enqueue has its place in the order too.
 * Set apart from adding the column: a column that is added with such a default rewrites the table.
 */
function enqueueOrder(d: Ddl): string[] {
  const column = d.addColumns('workflow_status', `enqueue_seq ${d.bigint}`);
  if (d.name === 'sqlite') return column;
  return [
    `create sequence if not exists ${d.table('holdfast_enqueue_seq')}`,
    ...column,
    `alter table ${d.table('workflow_status')} alter column enqueue_seq ` +
      `set default nextval('${d.table('holdfast_enqueue_seq').replaceAll("'", "''")}') * ${enqueueBlock}`,
  ];
}
