import { expect, it } from 'vitest';
import { event, queue, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

/**
 * What a program in any language writes and reads in SQL alone. The texts belong to the format: a change in one of
 * them breaks readers that we do not know.
 */
describeBackends(
  'portable rows',
  (backend) => {
    const shown = event<unknown>('shown');
    const values = stream<unknown>('shown');
    const mail = topic<unknown>('mail');

    const show = workflow('show', async (...args: unknown[]) => {
      await shown.set({ args, at: new Date(0) });
      await values.write(args);
      await values.close();
      return { args, mail: await mail.receive(), at: new Date(1), nothing: undefined };
    });
    const forward = workflow('forward', async (to: string, value: unknown) => mail.send(to, value));
    const refuse = workflow('refuse', async (kind: string) => {
      const text: unknown = 'a text';
      if (kind === 'text') throw text;
      throw Object.assign(new RangeError('too far'), { code: 7, data: { limit: 3 }, hidden: true });
    });

    async function started() {
      const database = await backend.newDatabase();
      const options = { database, workflows: [show, forward, refuse], queues: [queue('q')] };
      const t = await backend.testApp({ ...options, clock: 'real' });
      return { ...t, sql: (text: string) => tamper(database, text) };
    }

    const columns = 'workflow_uuid, name, class_name, queue_name, status, inputs, created_at, serialization';
    const insert = (id: string, name: string, inputs: string) =>
      `insert into workflow_status (${columns}) values
       ('${id}', '${name}', null, 'q', 'ENQUEUED', '${inputs}', 1700000000000, 'portable_json')`;

    it('run with only the eight columns that are required', async () => {
      const { app, sql } = await started();
      await sql(insert('w', 'show', '{"positionalArgs":["text",42,null,[1,{"a":true}]],"namedArgs":{"key":"v"}}'));
      await sql(`select send_message('w', '{"from":"SQL","unicode":"世界"}'::json, 'mail')`);
      const args = ['text', 42, null, [1, { a: true }], { key: 'v' }];
      const message = { from: 'SQL', unicode: '世界' };
      const seenAt = '1970-01-01T00:00:00.001Z';
      expect(await app.workflows.handle('w').result()).toEqual({ args, mail: message, at: seenAt });
      const [row] = await sql(`select status, output, serialization from workflow_status where workflow_uuid = 'w'`);
      expect(row).toEqual({
        status: 'SUCCESS',
        serialization: 'portable_json',
        output:
          '{"args":["text",42,null,[1,{"a":true}],{"key":"v"}],"mail":{"from":"SQL","unicode":"世界"},' +
          '"at":"1970-01-01T00:00:00.001Z"}',
      });
    });

    it('run without named arguments and with no arguments at all', async () => {
      const { app, sql } = await started();
      await sql(insert('a', 'show', '{"positionalArgs":[1]}'));
      await sql(insert('b', 'show', '{"positionalArgs":[],"namedArgs":{}}'));
      await sql(insert('c', 'show', '{}'));
      for (const [id, args] of [
        ['a', [1]],
        ['b', []],
        ['c', []],
      ] as const) {
        await sql(`select send_message('${id}', 'null'::json, 'mail')`);
        expect(await app.workflows.handle(id).result()).toMatchObject({ args, mail: null });
      }
    });

    it('produce events, streams and messages in the portable format, which SQL can read', async () => {
      const { app, sql } = await started();
      await sql(insert('w', 'show', '{"positionalArgs":["x"]}'));
      await sql(insert('f', 'forward', '{"positionalArgs":["w",{"n":[1.5]}]}'));
      await app.workflows.handle('w').result();
      expect(await sql('select key, value, serialization from workflow_events')).toEqual([
        { key: 'shown', value: '{"args":["x"],"at":"1970-01-01T00:00:00.000Z"}', serialization: 'portable_json' },
      ]);
      expect(await sql('select key, value, "offset", serialization from streams order by "offset"')).toEqual([
        { key: 'shown', value: '["x"]', offset: 0, serialization: 'portable_json' },
        { key: 'shown', value: '"__DBOS_STREAM_CLOSED__"', offset: 1, serialization: 'portable_json' },
      ]);
      expect(await sql('select topic, message, serialization, consumed from notifications')).toEqual([
        { topic: 'mail', message: '{"n":[1.5]}', serialization: 'portable_json', consumed: true },
      ]);
    });

    it('fail in the portable format: name and message, with code and data if there are any', async () => {
      const { app, sql } = await started();
      await sql(insert('error', 'refuse', '{"positionalArgs":["error"]}'));
      await sql(insert('text', 'refuse', '{"positionalArgs":["text"]}'));
      const error = await failure(app.workflows.handle('error').result());
      expect(error).toBeInstanceOf(RangeError);
      expect(error).toMatchObject({ message: 'too far', code: 7, data: { limit: 3 } });
      await app.workflows
        .handle('text')
        .result()
        .catch(() => {});
      expect(await sql('select workflow_uuid, status, output, error from workflow_status order by 1')).toEqual([
        {
          workflow_uuid: 'error',
          status: 'ERROR',
          output: null,
          error: '{"name":"RangeError","message":"too far","code":7,"data":{"limit":3}}',
        },
        {
          workflow_uuid: 'text',
          status: 'ERROR',
          output: null,
          error: '{"name":"NonError","message":"a text","data":"a text"}',
        },
      ]);
    });

    it('fail with an error if their arguments are unreadable, and do not block other rows', async () => {
      const { app, sql } = await started();
      await sql(insert('broken', 'show', '{"positionalArgs":'));
      await sql(insert('list', 'show', '[1]'));
      await sql(insert('sound', 'refuse', '{"positionalArgs":["error"]}'));
      for (const id of ['broken', 'list']) {
        expect(await failure(app.workflows.handle(id).result())).toMatchObject({ code: 'UNREADABLE_VALUE' });
      }
      expect(await failure(app.workflows.handle('sound').result())).toMatchObject({ message: 'too far' });
    });

    it('can come from enqueue_workflow with its options, and get messages from send_message once per ID', async () => {
      const { app, sql } = await started();
      const [row] = await sql(
        `select enqueue_workflow('show', 'q', array['"ü"'::json, '{"a":[null]}'::json], '{"named":1}'::json,
           workflow_id => 'w', priority => 3, timeout_ms => 60000, authenticated_user => 'ada') as id`,
      );
      expect(row).toEqual({ id: 'w' });
      await sql(`select send_message('w', '{"n":1}'::json, 'mail', 'one')`);
      await sql(`select send_message('w', '{"n":2}'::json, 'mail', 'one')`);
      expect(await app.workflows.handle('w').result()).toMatchObject({
        args: ['ü', { a: [null] }, { named: 1 }],
        mail: { n: 1 },
      });
      expect(await app.workflows.get('w')).toMatchObject({ priority: 3, timeoutMs: 60_000, user: 'ada' });
      expect(await app.workflows.messages('w')).toHaveLength(1);
    });

    it('are refused by the functions with the errors of DBOS', async () => {
      const { sql } = await started();
      expect(await failure(sql(`select send_message('nobody', '1'::json)`))).toMatchObject({
        code: '23503',
        message: 'DBOS non-existent workflow',
      });
      const enqueue = `select enqueue_workflow('show', 'q', deduplication_id => 'one')`;
      await sql(enqueue);
      expect(await failure(sql(enqueue))).toMatchObject({ code: '23505', message: 'DBOS queue duplicated' });
    });
  },
  ['postgres'],
);
