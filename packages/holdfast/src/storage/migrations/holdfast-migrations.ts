import { enqueueBlock } from '../database.js';
import {
  announcedBySender,
  createEnqueueWorkflow,
  createOwnTrigger,
  hasNoTrigger,
  hasOtherEnqueueWorkflow,
  messagesTrigger,
  skipAnnounced,
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
 * The additions of Holdfast to the shared layout. Their counter is `holdfast_migrations`. DBOS ignores these columns,
 * and no addition changes the meaning of a DBOS column. The indexes on tables of DBOS are partial, so a write
 * maintains an index only if the index contains the row.
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
    name: 'queue order, pauses, lock versions, partitions; schedules',
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
    name: 'version names of applications',
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
    name: 'first start of recovered workflows',
    change: (d) => d.addColumns('workflow_status', `first_started_at ${d.bigint}`),
  },
  {
    version: 11,
    name: 'slots released while a workflow waits',
    change: (d) => [
      ...d.addColumns('workflow_status', 'resting_owner text'),
      ...d.addColumns('queues', "while_waiting text not null default 'hold'"),
    ],
    indexes: slotIndexes,
    dropsIndexes: ['idx_holdfast_running'],
  },
  {
    version: 12,
    name: 'oldest code that can work on this layout',
    change: (d) => d.addColumns('holdfast_migrations', `oldest_code ${d.bigint}`),
    oldestCode: 12,
  },
  {
    version: 13,
    name: 'forks, and incarnations of a workflow ID',
    change: (d) => [
      ...d.addColumns('workflow_status', 'seed text', `began_at ${d.bigint}`, 'incarnation text'),
      // The default is set in a second statement. Together with the new column it would fill every existing row.
      ...(d.name === 'sqlite'
        ? []
        : [`alter table ${d.table('workflow_status')} alter column incarnation set default gen_random_uuid()::text`]),
    ],
    // Finds the workflows that recorded a child: the parent of the child, and every fork of the parent.
    indexes: [
      {
        name: 'idx_holdfast_child',
        table: 'operation_outputs',
        on: 'child_workflow_id',
        where: 'child_workflow_id is not null',
      },
    ],
    // Older code would give a fork other random numbers than the original workflow.
    oldestCode: 13,
  },
  {
    version: 14,
    name: 'separate indexes for waiting workflows',
    indexes: waitingIndexes,
    dropsIndexes: ['idx_holdfast_queue_version', 'idx_holdfast_partition_version'],
    // Older code would find waiting workflows only by reading all of them.
    oldestCode: 14,
  },
  {
    version: 16,
    name: 'input and output tables of DBOS 5',
    change: payloadTables,
    // Older code stores inputs and outputs in the previous columns.
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
    // Steps that older code records have no value here, and a retry treats such steps more carefully.
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
    // Older code continues to count attempts in memory.
    oldestCode: 14,
  },
  {
    version: 20,
    name: 'calls in progress when a workflow failed',
    change: (d) => d.addColumns('workflow_status', 'under_way text'),
    // Older code leaves the column empty when a workflow ends.
    oldestCode: 14,
  },
  {
    version: 21,
    name: 'messages announced by their sender',
    change: (d) => d.addColumns('notifications', `${announcedBySender} ${d.boolean}`),
    // Older code leaves the column empty, so the trigger announces its messages.
    oldestCode: 14,
  },
  {
    version: 22,
    name: 'the message trigger skips messages announced by their sender',
    only: 'postgres',
    unless: (d) => hasNoTrigger(d, messagesTrigger),
    change: (d) => [skipAnnounced(d, messagesTrigger)],
    oldestCode: 14,
  },
  {
    version: 23,
    name: 'advisory locks for queues',
    only: 'postgres',
    change: createQueueLocks,
    // Older code locks the row, and edits and deletions still wait for that lock. The triggers make its own edits wait.
    oldestCode: 14,
  },
  {
    version: 24,
    name: 'trigger that announces messages to waiting processes',
    only: 'postgres',
    // If the trigger of DBOS is not wanted, this trigger is not wanted, either.
    unless: (d) => hasNoTrigger(d, messagesTrigger),
    change: createOwnTrigger,
    // Older code does not need this trigger, because it listens for the notifications of the DBOS trigger.
    oldestCode: 14,
  },
  {
    version: 25,
    name: 'the queues that an executor works on',
    change: (d) => d.addColumns('executors', 'listens text'),
    // Older code leaves the column null. Such an executor is assumed to work on all queues.
    oldestCode: 14,
  },
  {
    version: 26,
    name: 'layout with or without DBOS',
    change: (d) => d.addColumns('holdfast_migrations', 'compat text'),
    // With `compat: none` older code also works without the dropped indexes, but some of its statements get worse
    // plans.
    oldestCode: 14,
  },
  {
    version: 27,
    name: 'fill factors and autovacuum settings',
    only: 'postgres',
    unless: hasStorageSettings,
    change: storageSettings,
    oldestCode: 14,
  },
];

/**
 * Creates the tables in which DBOS 5 stores inputs and outputs of workflows (its migration 109). The definitions are
 * those of DBOS, so that a DBOS that later migrates a Holdfast database finds the tables that it would create. Holdfast
 * creates the tables even without DBOS. Then the same statements work on every database, even if DBOS starts to use it
 * after the launch.
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
  // On Postgres, the statement that deletes a workflow also deletes these rows.
  return [
    ...creates,
    `create trigger if not exists holdfast_payloads after delete on workflow_status begin ${clear.join(' ')} end`,
  ];
}

/**
 * Adds the order of messages: a number that grows with each message, regardless of the sender. Unlike milliseconds, the
 * number is unique. On SQLite the row number is the order.
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
 * Adds the queue order: a number that grows with each enqueued workflow. Unlike milliseconds, the number is unique. On
 * Postgres the column has a default, so that workflows enqueued by DBOS or by SQL functions get a place in the order,
 * too. The default is set in a second statement, because adding a column with such a default rewrites the table.
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
