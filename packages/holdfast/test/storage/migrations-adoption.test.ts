import type { ClientBase } from 'pg';
import { describe, expect, it } from 'vitest';
import { target } from '../../src/storage/migrations/migration-state.js';
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

/** The objects that Holdfast adds, in the notation of `layout`. */
const ownAdditions = [
  'column application_versions.name_in_app text default -',
  'column executors.application_name text not null default -',
  'column executors.application_version text not null default -',
  'column executors.beats bigint not null default -',
  'column executors.executor_id text not null default -',
  'column executors.heartbeat_at bigint not null default -',
  'column executors.host text not null default -',
  'column executors.incarnation text not null default -',
  'column executors.listens text default -',
  'column executors.lock_key text default -',
  'column executors.pid bigint not null default -',
  'column executors.process_start text default -',
  'column executors.started_at bigint not null default -',
  'column executors.takeovers bigint not null default 0',
  'column executors.ttl_ms bigint not null default -',
  'column holdfast_migrations.compat text default -',
  'column holdfast_migrations.oldest_code bigint default -',
  'column holdfast_migrations.version bigint not null default -',
  'column notifications.announced_by_sender boolean default -',
  'column notifications.consumed_by integer default -',
  "column notifications.send_seq bigint default nextval('dbos.holdfast_message_seq'::regclass)",
  'column operation_outputs.completion_seq integer default -',
  'column operation_outputs.requested_after integer default -',
  'column queues.partitioned boolean not null default false',
  'column queues.paused boolean not null default false',
  'column queues.turn bigint not null default 0',
  "column queues.while_waiting text not null default 'hold'::text",
  'column step_attempts.attempt integer not null default -',
  'column step_attempts.function_id integer not null default -',
  "column step_attempts.interrupted text not null default ''::text",
  'column step_attempts.next_at bigint default -',
  'column step_attempts.token text not null default -',
  'column step_attempts.workflow_uuid text not null default -',
  'column workflow_schedules.active_since bigint default -',
  'column workflow_schedules.catch_up text default -',
  'column workflow_schedules.catch_up_limit integer default -',
  'column workflow_status.began_at bigint default -',
  'column workflow_status.detached boolean not null default false',
  "column workflow_status.enqueue_seq bigint default (nextval('dbos.holdfast_enqueue_seq'::regclass) * 1048576)",
  'column workflow_status.first_started_at bigint default -',
  'column workflow_status.incarnation text default (gen_random_uuid())::text',
  'column workflow_status.resting_owner text default -',
  'column workflow_status.retries text default -',
  'column workflow_status.seed text default -',
  'column workflow_status.status_reason text default -',
  'column workflow_status.under_way text default -',
  'constraint dbos.executors PRIMARY KEY (incarnation)',
  'constraint dbos.holdfast_migrations PRIMARY KEY (version)',
  'constraint dbos.step_attempts FOREIGN KEY (workflow_uuid) REFERENCES dbos.workflow_status(workflow_uuid) ON DELETE CASCADE',
  'constraint dbos.step_attempts PRIMARY KEY (workflow_uuid, function_id)',
  ...[
    'holdfast_close_queue(queue text) returns void',
    'holdfast_hold_queues(queues text[]) returns SETOF text',
    'holdfast_hold_turn(queue text, known bigint) returns boolean',
    'holdfast_messages_function() returns trigger',
    'holdfast_queue_deleted() returns trigger',
    'holdfast_queue_edited() returns trigger',
  ].map((each) => `function ${each} {"search_path=pg_catalog, pg_temp"} f`),
  "index CREATE INDEX idx_holdfast_cancelled ON dbos.workflow_status USING btree (completed_at) WHERE (status = 'CANCELLED'::text)",
  'index CREATE INDEX idx_holdfast_child ON dbos.operation_outputs USING btree (child_workflow_id) WHERE (child_workflow_id IS NOT NULL)',
  'index CREATE INDEX idx_holdfast_executors ON dbos.executors USING btree (application_name)',
  'index CREATE INDEX idx_holdfast_partition_rate ON dbos.workflow_status USING btree (queue_name, queue_partition_key, started_at_epoch_ms) WHERE ((rate_limited = true) AND (queue_partition_key IS NOT NULL))',
  "index CREATE INDEX idx_holdfast_pending_executor ON dbos.workflow_status USING btree (application_version, executor_id) WHERE (status = 'PENDING'::text)",
  "index CREATE INDEX idx_holdfast_resting ON dbos.workflow_status USING btree (queue_name) WHERE (((status || ''::text) = 'PENDING'::text) AND (resting_owner = owner_xid))",
  "index CREATE INDEX idx_holdfast_retried ON dbos.workflow_status USING btree (queue_name, application_version, priority, enqueue_seq NULLS FIRST, created_at) WHERE ((COALESCE(status, ''::text) = 'ENQUEUED'::text) AND (recovery_attempts > 0))",
  "index CREATE INDEX idx_holdfast_retried_partition ON dbos.workflow_status USING btree (queue_name, application_version, queue_partition_key, priority, enqueue_seq NULLS FIRST, created_at) WHERE ((COALESCE(status, '-'::text) = 'ENQUEUED'::text) AND (recovery_attempts > 0) AND (queue_partition_key IS NOT NULL))",
  "index CREATE INDEX idx_holdfast_slots ON dbos.workflow_status USING btree (queue_name, queue_partition_key) WHERE (((status || ''::text) = 'PENDING'::text) AND (queue_name IS NOT NULL) AND ((resting_owner = owner_xid) IS NOT TRUE))",
  'index CREATE INDEX idx_holdfast_unread ON dbos.notifications USING btree (destination_uuid, topic, send_seq NULLS FIRST, created_at_epoch_ms) WHERE (consumed = false)',
  "index CREATE INDEX idx_holdfast_waiting ON dbos.workflow_status USING btree (queue_name, application_version, priority, enqueue_seq NULLS FIRST, created_at) WHERE ((status || ''::text) = 'ENQUEUED'::text)",
  "index CREATE INDEX idx_holdfast_waiting_partition ON dbos.workflow_status USING btree (queue_name, application_version, queue_partition_key, priority, enqueue_seq NULLS FIRST, created_at) WHERE (((''::text || status) = 'ENQUEUED'::text) AND (queue_partition_key IS NOT NULL))",
  'index CREATE UNIQUE INDEX executors_pkey ON dbos.executors USING btree (incarnation)',
  'index CREATE UNIQUE INDEX holdfast_migrations_pkey ON dbos.holdfast_migrations USING btree (version)',
  'index CREATE UNIQUE INDEX step_attempts_pkey ON dbos.step_attempts USING btree (workflow_uuid, function_id)',
  'trigger CREATE TRIGGER dbos_notifications_trigger AFTER INSERT ON dbos.notifications FOR EACH ROW WHEN ((new.announced_by_sender IS NOT TRUE)) EXECUTE FUNCTION dbos.notifications_function()',
  'trigger CREATE TRIGGER holdfast_messages_trigger AFTER INSERT ON dbos.notifications FOR EACH ROW WHEN ((new.announced_by_sender IS NOT TRUE)) EXECUTE FUNCTION dbos.holdfast_messages_function()',
  'trigger CREATE TRIGGER holdfast_queue_deleted BEFORE DELETE ON dbos.queues FOR EACH ROW EXECUTE FUNCTION dbos.holdfast_queue_deleted()',
  'trigger CREATE TRIGGER holdfast_queue_edited AFTER UPDATE ON dbos.queues FOR EACH ROW WHEN (((NOT (old.turn IS DISTINCT FROM new.turn)) OR (old.updated_at IS DISTINCT FROM new.updated_at))) EXECUTE FUNCTION dbos.holdfast_queue_edited()',
];
/** The trigger that DBOS has in the place of ours. */
const replaced = [
  'trigger CREATE TRIGGER dbos_notifications_trigger AFTER INSERT ON dbos.notifications FOR EACH ROW EXECUTE FUNCTION dbos.notifications_function()',
];
/** The objects that Holdfast creates in a database of version 108, which DBOS 5 creates later in the same form. */
const ofDbos5 = [
  'column workflow_input.inputs text default -',
  'column workflow_input.retention_timestamp bigint not null default ((EXTRACT(epoch FROM now()) * 1000.0))::bigint',
  'column workflow_input.workflow_uuid text not null default -',
  'column workflow_output.error text default -',
  'column workflow_output.output text default -',
  'column workflow_output.retention_timestamp bigint not null default ((EXTRACT(epoch FROM now()) * 1000.0))::bigint',
  'column workflow_output.workflow_uuid text not null default -',
  'constraint dbos.workflow_input PRIMARY KEY (workflow_uuid)',
  'constraint dbos.workflow_output PRIMARY KEY (workflow_uuid)',
  'index CREATE UNIQUE INDEX workflow_input_pkey ON dbos.workflow_input USING btree (workflow_uuid)',
  'index CREATE UNIQUE INDEX workflow_output_pkey ON dbos.workflow_output USING btree (workflow_uuid)',
];
const deadlineIndex =
  "index CREATE INDEX idx_workflow_status_deadline ON dbos.workflow_status USING btree (workflow_deadline_epoch_ms) WHERE ((status = ANY (ARRAY['ENQUEUED'::text, 'PENDING'::text, 'DELAYED'::text])) AND (workflow_deadline_epoch_ms IS NOT NULL))";

describe('sharing the layout with DBOS', () => {
  it('has at version 108 the same objects as DBOS, and our additions', async () => {
    const ours = await connectTo(await emptyDatabase());
    await migratePostgres(ours, options);
    const theirs = await connectTo(await emptyDatabase());
    await migrateWithDbosUpTo(theirs, 108);
    const [mine, dbos] = [await layout(ours), await layout(theirs)];
    expect(dbos.length).toBeGreaterThan(150);
    expect(minus(dbos, mine)).toEqual(replaced);
    expect(minus(mine, dbos)).toEqual([...ownAdditions, ...ofDbos5, deadlineIndex].sort());
  });

  it('adopts a database that DBOS 5.3.0 migrated to 123, and adds only our objects', async () => {
    const url = await emptyDatabase();
    migrateWithDbos(url);
    const client = await connectTo(url);
    await client.query("select dbos.enqueue_workflow('theirs', 'q', workflow_id => 'kept')");
    const before = await layout(client);
    await migratePostgres(client, options);
    const after = await layout(client);
    expect(await versions(client)).toEqual({ shared: 123, own: target.own });
    expect(minus(before, after)).toEqual(replaced);
    expect(minus(after, before)).toEqual(ownAdditions);
    expect(await enqueueWorkflow(client)).toContain('v_serialized_inputs');
    const { rows } = await client.query('select workflow_uuid, detached from dbos.workflow_status');
    expect(rows).toEqual([{ workflow_uuid: 'kept', detached: false }]);
    await migratePostgres(client, { ...options, migrate: false });
  });

  it('leaves a database that DBOS 5.3.0 can still migrate and use', async () => {
    const url = await emptyDatabase();
    const client = await connectTo(url);
    await migratePostgres(client, options);
    migrateWithDbos(url);
    expect(await versions(client)).toEqual({ shared: 123, own: target.own });
    const fresh = await emptyDatabase();
    migrateWithDbos(fresh);
    const wanted = await layout(await connectTo(fresh));
    expect(minus(wanted, await layout(client))).toEqual(replaced);
    expect(minus(await layout(client), wanted)).toEqual(ownAdditions);
    await migratePostgres(client, options);
  });

  it('continues from every shared version of DBOS', async () => {
    const reference = await connectTo(await emptyDatabase());
    await migratePostgres(reference, options);
    const client = await connectTo(await emptyDatabase());
    for (const version of [70, 99, 100, 105, 107]) {
      await client.query('drop schema if exists dbos cascade');
      await migrateWithDbosUpTo(client, version);
      await client.query('update dbos.dbos_migrations set version = $1', [version]);
      await migratePostgres(client, options);
      expect(await layout(client), `from ${version} of DBOS`).toEqual(await layout(reference));
    }
  });
});

async function enqueueWorkflow(client: ClientBase): Promise<string> {
  const { rows } = await client.query("select prosrc from pg_proc where proname = 'enqueue_workflow'");
  return rows.map((row) => row.prosrc).join();
}

describe('a database in the numbering of DBOS for TypeScript below 100', () => {
  it('is refused unchanged at every version, with an error that says what to do', async () => {
    const client = await connectTo(await emptyDatabase());
    for (let version = 2; version < 69; version++) {
      await migrateWithDbosUpTo(client, version);
      const before = await layout(client);
      const refusal = await migratePostgres(client, options).catch((error) => error);
      expect(refusal, `version ${version}`).toMatchObject({
        code: 'MIGRATION_REQUIRED',
        details: { reason: 'foreign-numbering' },
      });
      expect(refusal.message).toContain('Upgrade the database with its own DBOS first');
      expect(await layout(client), `version ${version}`).toEqual(before);
    }
  });

  it('is adopted after DBOS has migrated it to the new numbering', async () => {
    const url = await emptyDatabase();
    const client = await connectTo(url);
    await migrateWithDbosUpTo(client, 43);
    await expect(migratePostgres(client, options)).rejects.toMatchObject({ code: 'MIGRATION_REQUIRED' });
    migrateWithDbos(url);
    await migratePostgres(client, options);
    expect((await versions(client)).own).toBe(target.own);
  });

  it('is also refused if it has tables but no version number', async () => {
    const client = await connectTo(await emptyDatabase());
    await migrateUpTo(client, 30);
    await client.query('drop table dbos.dbos_migrations');
    const logger = listener();
    await expect(migratePostgres(client, { ...options, logger })).rejects.toMatchObject({
      code: 'MIGRATION_REQUIRED',
      details: { reason: 'foreign-numbering' },
    });
  });
});
