import type { Ddl } from './migration.js';

/** The tables of the shared layout in their first form. Later migrations add columns. */

const cascade = 'on update cascade on delete cascade';

function workflowId(d: Ddl, column: string): string {
  return `${column} text not null references ${d.table('workflow_status')} (workflow_uuid) ${cascade}`;
}

/** Migration 1 without the triggers. */
export function firstTables(d: Ddl): string[] {
  return [...workflowTables(d), ...messageTables(d), ...(d.name === 'postgres' ? [eventDispatch(d)] : [])];
}

function workflowTables(d: Ddl): string[] {
  return [
    `create table ${d.table('workflow_status')} (
      workflow_uuid text not null primary key,
      status text,
      name text,
      authenticated_user text,
      assumed_role text,
      authenticated_roles text,
      request text,
      output text,
      error text,
      executor_id text,
      created_at ${d.bigint} not null default ${d.nowMs},
      updated_at ${d.bigint} not null default ${d.nowMs},
      application_version text,
      application_id text,
      class_name ${d.shortText} default null,
      config_name ${d.shortText} default null,
      recovery_attempts ${d.bigint} default 0,
      queue_name text,
      workflow_timeout_ms ${d.bigint},
      workflow_deadline_epoch_ms ${d.bigint},
      inputs text,
      started_at_epoch_ms ${d.bigint},
      deduplication_id text,
      priority integer not null default 0${
        // SQLite gets no constraint, because it cannot drop the constraint in migration 28. On SQLite the index of
        // migration 27 is the first one.
        d.name === 'postgres'
          ? ',\n      constraint uq_workflow_status_queue_name_dedup_id unique (queue_name, deduplication_id)'
          : ''
      }
    )`,
    `create index workflow_status_created_at_index on ${d.table('workflow_status')} (created_at)`,
    `create index workflow_status_executor_id_index on ${d.table('workflow_status')} (executor_id)`,
    `create index workflow_status_status_index on ${d.table('workflow_status')} (status)`,
    `create table ${d.table('operation_outputs')} (
      ${workflowId(d, 'workflow_uuid')},
      function_id integer not null,
      function_name text not null default '',
      output text,
      error text,
      child_workflow_id text,
      primary key (workflow_uuid, function_id)
    )`,
  ];
}

function messageTables(d: Ddl): string[] {
  return [
    // On SQLite the table has the primary key from the start, because SQLite cannot add the key in migration 10.
    `create table ${d.table('notifications')} (
      message_uuid text not null ${d.name === 'sqlite' ? 'primary key ' : ''}default ${d.uuid},
      ${workflowId(d, 'destination_uuid')},
      topic text,
      message text not null,
      created_at_epoch_ms ${d.bigint} not null default ${d.nowMs}
    )`,
    `create index idx_workflow_topic on ${d.table('notifications')} (destination_uuid, topic)`,
    `create table ${d.table('workflow_events')} (
      ${workflowId(d, 'workflow_uuid')},
      key text not null,
      value text not null,
      primary key (workflow_uuid, key)
    )`,
    `create table ${d.table('streams')} (
      ${workflowId(d, 'workflow_uuid')},
      key text not null,
      value text not null,
      "offset" integer not null,
      primary key (workflow_uuid, key, "offset")
    )`,
  ];
}

function eventDispatch(d: Ddl): string {
  return `create table ${d.table('event_dispatch_kv')} (
    service_name text not null,
    workflow_fn_name text not null,
    key text not null,
    value text,
    update_seq numeric(38, 0),
    update_time numeric(38, 15),
    primary key (service_name, workflow_fn_name, key)
  )`;
}

export function eventsHistory(d: Ddl): string {
  return `create table ${d.table('workflow_events_history')} (
    ${workflowId(d, 'workflow_uuid')},
    function_id integer not null,
    key text not null,
    value text not null,
    primary key (workflow_uuid, function_id, key)
  )`;
}

export function schedules(d: Ddl): string {
  return `create table ${d.table('workflow_schedules')} (
    schedule_id text not null primary key,
    schedule_name text not null unique,
    workflow_name text not null,
    workflow_class_name text,
    schedule text not null,
    status text not null default 'ACTIVE',
    context text not null
  )`;
}

export function applicationVersions(d: Ddl): string {
  return `create table ${d.table('application_versions')} (
    version_id text not null primary key,
    version_name text not null unique,
    version_timestamp ${d.bigint} not null default ${d.nowMs},
    created_at ${d.bigint} not null default ${d.nowMs}
  )`;
}

export function queues(d: Ddl): string {
  return `create table ${d.table('queues')} (
    queue_id text not null primary key default ${d.name === 'postgres' ? `(${d.uuid})::text` : d.uuid},
    name text not null unique,
    concurrency integer,
    worker_concurrency integer,
    rate_limit_max integer,
    rate_limit_period_sec ${d.double},
    priority_enabled ${d.boolean} not null default ${d.false},
    partition_queue ${d.boolean} not null default ${d.false},
    polling_interval_sec ${d.double} not null default 1.0,
    created_at ${d.bigint} not null default ${d.nowMs},
    updated_at ${d.bigint} not null default ${d.nowMs}
  )`;
}
