/**
 * Owns the two tables of the hand-written systems. They have the columns, keys and indexes of the layout that Holdfast
 * and DBOS share (version 108), plus Holdfast's `completion_seq`. A row therefore costs the database the same in every
 * system. Indexes that no row of these workloads enters exist, too, because the planner and every insert check them.
 */

/**
 * @param {'postgres' | 'sqlite'} storage
 * @returns {string} for Postgres in the schema `dbos`, for SQLite without a schema
 */
export function createTables(storage) {
  const on = storage === 'postgres' ? 'dbos.' : '';
  const json = storage === 'postgres' ? 'jsonb' : 'text';
  const gin = storage === 'postgres' ? 'using gin ' : '';
  return `
    ${storage === 'postgres' ? 'create schema dbos;' : ''}
    create table ${on}workflow_status (
      workflow_uuid text not null primary key, status text, name text, authenticated_user text, assumed_role text,
      authenticated_roles text, request text, output text, error text, executor_id text,
      created_at bigint not null, updated_at bigint not null, application_version text, application_id text,
      class_name varchar(255), config_name varchar(255), recovery_attempts bigint default 0, queue_name text,
      workflow_timeout_ms bigint, workflow_deadline_epoch_ms bigint, inputs text, started_at_epoch_ms bigint,
      deduplication_id text, priority integer not null default 0, queue_partition_key text, forked_from text,
      owner_xid text, parent_workflow_id text, serialization text, delay_until_epoch_ms bigint,
      was_forked_from boolean not null default false, application_name text, attributes ${json}, completed_at bigint,
      debounce_deadline_epoch_ms bigint, is_debounced boolean not null default false,
      rate_limited boolean not null default false, schedule_name text);
    create table ${on}operation_outputs (
      workflow_uuid text not null references ${on}workflow_status (workflow_uuid) on update cascade on delete cascade,
      function_id integer not null, function_name text not null default '', output text, error text,
      child_workflow_id text, started_at_epoch_ms bigint, completed_at_epoch_ms bigint, serialization text,
      application_name text, completion_seq integer, primary key (workflow_uuid, function_id));
    create index idx_created_at on ${on}workflow_status (created_at);
    create index idx_delayed on ${on}workflow_status (delay_until_epoch_ms) where status = 'DELAYED';
    create index idx_forked_from on ${on}workflow_status (forked_from) where forked_from is not null;
    create index idx_parent on ${on}workflow_status (parent_workflow_id) where parent_workflow_id is not null;
    create unique index uq_dedup_id on ${on}workflow_status (queue_name, deduplication_id)
      where deduplication_id is not null;
    create index idx_pending on ${on}workflow_status (created_at) where status = 'PENDING';
    create index idx_failed on ${on}workflow_status (status, created_at)
      where status in ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');
    create index idx_in_flight on ${on}workflow_status (queue_name, status, priority, created_at)
      where status in ('ENQUEUED', 'PENDING');
    create index idx_partition on ${on}workflow_status
      (queue_name, status, queue_partition_key, priority, created_at, workflow_uuid)
      where status in ('ENQUEUED', 'PENDING') and queue_partition_key is not null;
    create index idx_rate_limited on ${on}workflow_status (queue_name, started_at_epoch_ms) where rate_limited = true;
    create index idx_completed_at on ${on}workflow_status (completed_at) where completed_at is not null;
    create index idx_started_at on ${on}workflow_status (started_at_epoch_ms) where started_at_epoch_ms is not null;
    create index idx_attributes on ${on}workflow_status ${gin}(attributes) where attributes is not null;
    create index idx_schedule_name on ${on}workflow_status (schedule_name) where schedule_name is not null;
    create index idx_steps_completed_at on ${on}operation_outputs (completed_at_epoch_ms, function_name);`;
}
