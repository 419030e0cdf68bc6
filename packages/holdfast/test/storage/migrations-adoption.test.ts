import { describe, expect, it } from 'vitest';
import { target } from '../../src/storage/migrations/standing.js';
import { migratePostgres } from '../../src/storage/postgres/migrate.js';
import {
  connectTo,
  emptyDatabase,
  layout,
  listener,
  migrateUpTo,
  migrateWithDbos,
  migrateWithDbosUpTo,
  minus,
  quiet,
  versions,
} from './migrations-support.js';

const options = { schema: 'dbos', migrate: true, logger: quiet };

/** What Holdfast adds, as `layout` words it. */
const ownAdditions = [
  'column application_versions.name_in_app text default -',
  'column executors.application_name text not null default -',
  'column executors.application_version text not null default -',
  'column executors.beats bigint not null default -',
  'column executors.executor_id text not null default -',
  'column executors.heartbeat_at bigint not null default -',
  'column executors.host text not null default -',
  'column executors.incarnation text not null default -',
  'column executors.lock_key text default -',
  'column executors.pid bigint not null default -',
  'column executors.process_start text default -',
  'column executors.started_at bigint not null default -',
  'column executors.takeovers bigint not null default 0',
  'column executors.ttl_ms bigint not null default -',
  'column holdfast_migrations.version bigint not null default -',
  "column notifications.send_seq bigint default nextval('dbos.holdfast_message_seq'::regclass)",
  'column operation_outputs.completion_seq integer default -',
  'column queues.partitioned boolean not null default false',
  'column queues.paused boolean not null default false',
  'column queues.turn bigint not null default 0',
  "column queues.while_waiting text not null default 'hold'::text",
  'column workflow_schedules.active_since bigint default -',
  'column workflow_schedules.catch_up text default -',
  'column workflow_schedules.catch_up_limit integer default -',
  'column workflow_status.began_at bigint default -',
  'column workflow_status.detached boolean not null default false',
  "column workflow_status.enqueue_seq bigint default (nextval('dbos.holdfast_enqueue_seq'::regclass) * 1048576)",
  'column workflow_status.first_started_at bigint default -',
  'column workflow_status.incarnation text default (gen_random_uuid())::text',
  'column workflow_status.resting_owner text default -',
  'column workflow_status.seed text default -',
