import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { migratePostgres } from '../../src/storage/postgres/migrate.js';
import { connectTo, emptyDatabase, quiet } from './migrations-support.js';

async function migrated(): Promise<pg.Client> {
  const client = await connectTo(await emptyDatabase());
  await migratePostgres(client, { schema: 'dbos', migrate: true, logger: quiet });
  return client;
}

async function workflow(client: pg.Client, id: string): Promise<Record<string, unknown>> {
  return (await client.query('select * from dbos.workflow_status where workflow_uuid = $1', [id])).rows[0];
}

describe('dbos.enqueue_workflow', () => {
  it('enqueues with portable inputs and returns the ID', async () => {
    const client = await migrated();
    const { rows } = await client.query(
      `select dbos.enqueue_workflow('checkout', 'orders', array['1', '{"a": 2}']::json[], '{"k": null}', 'Shop', 'main',
         'order-7', 'v1', 5000, null, 'dedup', 3, null, 'ada', '["admin"]', null, 'shop') as id`,
    );
    expect(rows).toEqual([{ id: 'order-7' }]);
    const row = await workflow(client, 'order-7');
    expect(row).toMatchObject({
      status: 'ENQUEUED',
      name: 'checkout',
      queue_name: 'orders',
      class_name: 'Shop',
      config_name: 'main',
      application_version: 'v1',
      workflow_timeout_ms: '5000',
      deduplication_id: 'dedup',
      priority: 3,
      authenticated_user: 'ada',
      authenticated_roles: '["admin"]',
      application_name: 'shop',
      serialization: 'portable_json',
      recovery_attempts: '0',
    });
    expect(JSON.parse(row.inputs as string)).toEqual({ positionalArgs: [1, { a: 2 }], namedArgs: { k: null } });
  });

  it('generates an ID and uses no arguments by default, and delays until a given time', async () => {
    const client = await migrated();
    const { rows } = await client.query(
      `select dbos.enqueue_workflow('wf', 'q') as a,
              dbos.enqueue_workflow('wf', 'q', delay_until_epoch_ms => 99999999999999) as b`,
    );
    const row = await workflow(client, rows[0].a);
    expect(rows[0].a).toMatch(/^[0-9a-f-]{36}$/);
    expect(JSON.parse(row.inputs as string)).toEqual({ positionalArgs: [], namedArgs: {} });
    expect(row).toMatchObject({ status: 'ENQUEUED', priority: 0, class_name: null, deduplication_id: null });
    expect(await workflow(client, rows[0].b)).toMatchObject({
      status: 'DELAYED',
      delay_until_epoch_ms: '99999999999999',
    });
  });

  it('returns a taken ID and does not change its workflow', async () => {
    const client = await migrated();
    const enqueue = "select dbos.enqueue_workflow('wf', 'q', workflow_id => 'a', deduplication_id => 'd')";
    await client.query(enqueue);
    await client.query("update dbos.workflow_status set status = 'SUCCESS', output = '1', deduplication_id = null");
    const before = await workflow(client, 'a');
    await client.query(enqueue);
    expect(await workflow(client, 'a')).toEqual(before);
  });

  it('refuses a deduplication ID in use, a taken ID with another workflow, and invalid arguments', async () => {
    const client = await migrated();
    await client.query("select dbos.enqueue_workflow('wf', 'q', workflow_id => 'a', deduplication_id => 'd')");
    const refusals: Record<string, object> = {
      "'wf', 'q', workflow_id => 'b', deduplication_id => 'd'": {
        code: '23505',
        message: 'DBOS queue duplicated',
        detail: 'Workflow b with queue q and deduplication ID d already exists',
      },
      "'other', 'q', workflow_id => 'a'": { message: 'DBOS conflicting workflow' },
      "'wf', 'q', workflow_id => 'a', class_name => 'C'": { message: 'DBOS conflicting workflow' },
      "'', 'q'": { message: 'Workflow name cannot be null or empty' },
      "'wf', null": { message: 'Queue name cannot be null or empty' },
      "'wf', 'q', workflow_id => ''": { message: 'Workflow ID cannot be an empty string if provided.' },
      "'wf', 'q', named_args => '[1]'": { message: 'Named args must be a JSON object' },
      "'wf', 'q', delay_until_epoch_ms => -1": { message: 'delay_until_epoch_ms must be >= 0' },
    };
    for (const [args, refusal] of Object.entries(refusals)) {
      await expect(client.query(`select dbos.enqueue_workflow(${args})`), args).rejects.toMatchObject(refusal);
    }
  });

  it('is updated if it is ours, and otherwise not changed', async () => {
    const client = await migrated();
    const source = async (): Promise<string> =>
      (await client.query("select prosrc from pg_proc where proname = 'enqueue_workflow'")).rows[0].prosrc;
    const current = await source();
    const withBody = async (body: string): Promise<void> => {
      const { rows } = await client.query(
        "select pg_get_functiondef(oid) as text from pg_proc where proname = 'enqueue_workflow'",
      );
      await client.query(rows[0].text.replace(await source(), body));
      await client.query('update dbos.holdfast_migrations set version = 16');
      await migratePostgres(client, { schema: 'dbos', migrate: true, logger: quiet });
    };
    const check = /\n {2}if enqueue_workflow.delay_until_epoch_ms < 0 then\n.*\n {2}end if;/;
    expect(current).toMatch(check);
    await withBody(current.replace(check, ''));
    expect(await source()).toBe(current);
    const theirs = "\nbegin return 'of DBOS'; end;";
    await withBody(theirs);
    expect(await source()).toBe(theirs);
  });

  it('ignores functions that a caller puts before the catalog in the search path', async () => {
    const client = await migrated();
    await client.query(`create schema trap;
      create function trap.gen_random_uuid() returns uuid language sql as $$ select 'deadbeef-0000-0000-0000-000000000000'::uuid $$;
      set search_path = trap, pg_catalog`);
    const { rows } = await client.query("select dbos.enqueue_workflow('wf', 'q') as id");
    expect(rows[0].id).not.toContain('deadbeef');
  });
});

describe('dbos.send_message', () => {
  it('stores the message once per message ID, and notifies listeners', async () => {
    const client = await migrated();
    const heard: string[] = [];
    client.on('notification', (message) => heard.push(`${message.channel} ${message.payload}`));
    await client.query('listen dbos_notifications_channel');
    await client.query("select dbos.enqueue_workflow('wf', 'q', workflow_id => 'a')");
    await client.query(`select dbos.send_message('a', '{"x": 1}', 'news', 'm1')`);
    await client.query(`select dbos.send_message('a', '{"x": 2}', 'news', 'm1')`);
    await client.query("select dbos.send_message('a', 'null')");
    const { rows } = await client.query(
      'select topic, message, serialization, consumed from dbos.notifications order by created_at_epoch_ms, topic desc',
    );
    expect(rows).toEqual([
      { topic: 'news', message: '{"x": 1}', serialization: 'portable_json', consumed: false },
      { topic: '__null__topic__', message: 'null', serialization: 'portable_json', consumed: false },
    ]);
    expect(heard).toEqual(['dbos_notifications_channel a::news', 'dbos_notifications_channel a::__null__topic__']);
  });

  it('fails with the ID of a workflow that does not exist', async () => {
    const client = await migrated();
    await expect(client.query("select dbos.send_message('nobody', '1')")).rejects.toMatchObject({
      code: '23503',
      message: 'DBOS non-existent workflow',
      detail: 'Destination workflow nobody does not exist',
    });
  });

  it('stores a message whose topic is too long for a notification', async () => {
    const client = await migrated();
    await client.query("select dbos.enqueue_workflow('wf', 'q', workflow_id => 'a')");
    await client.query("select dbos.send_message('a', '1', repeat('t', 2000) || repeat('é', 4000))");
    const { rows } = await client.query('select count(*)::int as n from dbos.notifications');
    expect(rows).toEqual([{ n: 1 }]);
  });
});
