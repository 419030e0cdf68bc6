import {
  createEnqueueWorkflow,
  createSendMessage,
  createTrigger,
  eventsTrigger,
  messagesTrigger,
  pinEnqueueWorkflow,
  pinSendMessage,
  pinTrigger,
} from './functions.js';
import type { Index, Migration } from './migration.js';
import { applicationVersions, eventsHistory, firstTables, queues, schedules } from './shared-tables.js';

export const forkedFrom: Index = {
  name: 'idx_workflow_status_forked_from',
  table: 'workflow_status',
  on: 'forked_from',
  where: 'forked_from is not null',
  replaces: true,
};

export const parentWorkflow: Index = {
  name: 'idx_workflow_status_parent_workflow_id',
  table: 'workflow_status',
  on: 'parent_workflow_id',
  where: 'parent_workflow_id is not null',
  replaces: true,
};

/** Versions 1 to 23 of the shared layout, one entry each. */
export const firstMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'tables and triggers',
    change: (d) => [
      ...firstTables(d),
      ...(d.name === 'postgres' ? [...createTrigger(d, messagesTrigger), ...createTrigger(d, eventsTrigger)] : []),
    ],
  },
  {
    version: 2,
    name: 'queue partitions',
    change: (d) => d.addColumns('workflow_status', 'queue_partition_key text'),
  },
  {
    version: 3,
    name: 'index for queues',
    indexes: [
      {
        name: 'idx_workflow_status_queue_status_started',
        table: 'workflow_status',
        on: 'queue_name, status, started_at_epoch_ms',
      },
    ],
  },
  {
    version: 4,
    name: 'forks',
    change: (d) => d.addColumns('workflow_status', 'forked_from text'),
    indexes: [{ name: forkedFrom.name, table: 'workflow_status', on: 'forked_from' }],
  },
  {
    version: 5,
    name: 'step times',
    change: (d) =>
      d.addColumns('operation_outputs', `started_at_epoch_ms ${d.bigint}`, `completed_at_epoch_ms ${d.bigint}`),
  },
  {
    version: 6,
    name: 'history of events',
    change: (d) => [eventsHistory(d), ...d.addColumns('streams', 'function_id integer not null default 0')],
  },
  { version: 7, name: 'owner', change: (d) => d.addColumns('workflow_status', 'owner_xid text') },
  {
    version: 8,
    name: 'parents',
    change: (d) => d.addColumns('workflow_status', 'parent_workflow_id text'),
    indexes: [{ name: parentWorkflow.name, table: 'workflow_status', on: 'parent_workflow_id' }],
  },
  { version: 9, name: 'schedules', change: (d) => [schedules(d)] },
  {
    version: 10,
    name: 'primary key of messages',
    only: 'postgres',
    unless: (d) =>
      `select 1 from information_schema.table_constraints where constraint_type = 'PRIMARY KEY' ` +
      `and table_name = 'notifications' and table_schema = '${d.schema.replaceAll("'", "''")}'`,
    change: (d) => [`alter table ${d.table('notifications')} add primary key (message_uuid)`],
  },
  {
    version: 11,
    name: 'serialization formats',
    change: (d) =>
      [
        'workflow_status',
        'operation_outputs',
        'notifications',
        'workflow_events',
        'workflow_events_history',
        'streams',
      ].flatMap((table) => d.addColumns(table, 'serialization text')),
  },
  {
    version: 12,
    name: 'consumed messages',
    change: (d) => d.addColumns('notifications', `consumed ${d.boolean} not null default ${d.false}`),
    indexes: [{ name: 'idx_notifications', table: 'notifications', on: 'destination_uuid, topic' }],
  },
  { version: 13, name: 'application versions', change: (d) => [applicationVersions(d)] },
  {
    version: 14,
    name: 'SQL functions',
    only: 'postgres',
    change: (d) => [createEnqueueWorkflow(d, 14), createSendMessage(d)],
  },
  {
    version: 15,
    name: 'backfill and time zones of schedules',
    change: (d) =>
      d.addColumns(
        'workflow_schedules',
        'last_fired_at text',
        `automatic_backfill ${d.boolean} not null default ${d.false}`,
        'cron_timezone text',
      ),
  },
  {
    version: 16,
    name: 'delayed workflows',
    change: (d) => d.addColumns('workflow_status', `delay_until_epoch_ms ${d.bigint}`),
    indexes: [
      {
        name: 'idx_workflow_status_delayed',
        table: 'workflow_status',
        on: 'delay_until_epoch_ms',
        where: "status = 'DELAYED'",
      },
    ],
  },
  {
    version: 17,
    name: 'queues of schedules',
    change: (d) => d.addColumns('workflow_schedules', 'queue_name text'),
  },
  {
    version: 18,
    name: 'origins of forks',
    change: (d) => d.addColumns('workflow_status', `was_forked_from ${d.boolean} not null default ${d.false}`),
  },
  {
    version: 19,
    name: 'index for step times',
    indexes: [
      {
        name: 'idx_operation_outputs_completed_at_function_name',
        table: 'operation_outputs',
        on: 'completed_at_epoch_ms, function_name',
      },
    ],
  },
  {
    version: 20,
    name: 'pinned search path',
    only: 'postgres',
    change: (d) => [
      pinEnqueueWorkflow(d, 14),
      pinSendMessage(d),
      pinTrigger(d, messagesTrigger),
      pinTrigger(d, eventsTrigger),
    ],
  },
  { version: 21, name: 'queues', change: (d) => [queues(d)] },
  { version: 22, name: 'partial index for forks', indexes: [forkedFrom] },
  { version: 23, name: 'partial index for parents', indexes: [parentWorkflow] },
];
