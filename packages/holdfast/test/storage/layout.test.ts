import { expect, it } from 'vitest';
import { connect, launch, queue, run, workflow } from '../../src/index.js';
import { expectedColumns } from '../../src/storage/migrations/layout.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, recordingLogger, tamper } from '../support/faults.js';

/** Columns of the shared layout that no statement of Holdfast uses. */
const ofOthers = [
  'workflow_status.request',
  'workflow_status.application_id',
  'workflow_input.retention_timestamp',
  'workflow_output.retention_timestamp',
];

describeBackends('the columns that a database must have', (backend) => {
  const all = {
    postgres:
      "select c.relname || '.' || a.attname as name from pg_class c join pg_attribute a on a.attrelid = c.oid " +
      "where c.relnamespace = 'dbos'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped",
    sqlite:
      "select m.name || '.' || c.name as name from sqlite_master m join pragma_table_info(m.name) c where m.type = 'table'",
  };

  it('are the columns that migrations create, except columns that only others use', async () => {
    const rows = await tamper(await backend.newDatabase(), all[backend.name]);
    const made = rows
      .map(({ name }) => String(name))
      .filter((name) => !/^(\w+_migrations|event_dispatch_kv|sqlite_\w+)\./.test(name) && !ofOthers.includes(name));
    const expected = expectedColumns(backend.name).map(({ table, column }) => `${table}.${column}`);
    expect(made.sort()).toEqual(expected.sort());
  });
});

const parked = 'alter table streams rename to parked';
const problems: Readonly<Record<string, { sqlite: string; postgres: string; says: string | RegExp }>> = {
  'a column that is missing': {
    sqlite: 'alter table workflow_status rename column inputs to taken',
    postgres: 'alter table workflow_status drop column inputs',
    says: 'the column workflow_status.inputs is missing',
  },
  'a column of another type': {
    sqlite: 'alter table executors rename column pid to was; alter table executors add column pid text',
    postgres: 'alter table executors alter column pid type text',
    says: /^the column executors.pid has the type text instead of bigint$/i,
  },
  'a table that is missing': { sqlite: parked, postgres: parked, says: 'the table streams is missing' },
  'a view in the place of a table': {
    sqlite: `${parked}; create view streams as select * from parked`,
    postgres: `${parked}; create view streams as select * from parked`,
    says: 'streams is a view, not a table',
  },
};

describeBackends('a database that was changed by hand', (backend) => {
  it.each(Object.entries(problems))('is refused by launch and by connect: %s', async (_, problem) => {
    const database = await backend.newDatabase();
    for (const each of problem[backend.name].split('; ')) await tamper(database, each);
    const { says } = problem;
    const expected = {
      code: 'SCHEMA_MISMATCH',
      details: { problems: [typeof says === 'string' ? says : expect.stringMatching(says)] },
    };
    for (const migrate of [true, false]) {
      expect(await failure(launch({ name: 'test', database, migrate, logger: silent }))).toMatchObject(expected);
    }
    expect(await failure(connect({ database, logger: silent }))).toMatchObject(expected);
  });

  it('is refused if its version table is not one of ours', async () => {
    const database = await backend.newDatabase();
    await tamper(database, 'alter table holdfast_migrations rename column version to number');
    expect(await failure(launch({ name: 'test', database, logger: silent }))).toMatchObject({
      code: 'SCHEMA_MISMATCH',
    });
  });

  it.each([123, 124])('gets one warning only if its version is newer than the tested one: %i', async (version) => {
    const database = await backend.newDatabase();
    await tamper(database, `update dbos_migrations set version = ${version}`);
    const logger = recordingLogger();
    await (await launch({ name: 'test', database, logger })).shutdown();
    const warnings = logger.matching(/newer DBOS.*dbos_migrations is at 124, and Holdfast was tested up to 123/);
    expect(warnings).toHaveLength(version === 124 ? 1 : 0);
  });
});

/** The state after a restore of the tables alone, or after a person removed objects that DBOS does not have. */
const withoutLocks = {
  'every function of ours': 'drop function holdfast_hold_turn, holdfast_hold_queues, holdfast_close_queue cascade',
  'a trigger': 'drop trigger holdfast_queue_edited on queues',
  'a function with its trigger': 'drop function holdfast_queue_deleted cascade',
};

const orders = queue('orders', { concurrency: 2 });
const ship = workflow('ship', () => run('pack', () => 'shipped'));

describeBackends(
  'a Postgres schema without the objects that lock queues',
  (backend) => {
    it.each(Object.entries(withoutLocks))('is refused, or completed by a launch that migrates: %s', async (_, drop) => {
      const database = await backend.newDatabase();
      const locks =
        "select proname as name from pg_proc where pronamespace = 'dbos'::regnamespace and proname like 'holdfast%queue%' " +
        "union all select tgname from pg_trigger where tgname like 'holdfast_queue%' order by 1";
      const before = await tamper(database, locks);
      await tamper(database, drop);
      const options = { name: 'test', database, workflows: [ship], queues: [orders], logger: silent };
      const refused = {
        code: 'SCHEMA_MISMATCH',
        message: expect.stringMatching(/lacks objects that queues need.*Call migrate\(\)/),
      };
      expect(await failure(launch({ ...options, migrate: false }))).toMatchObject(refused);
      const app = await launch(options);
      expect(await ship.with({ queue: orders })()).toBe('shipped');
      expect(await app.queues.pause('orders')).toMatchObject({ paused: true });
      await app.shutdown();
      expect(await tamper(database, locks)).toEqual(before);
      await (await launch({ ...options, migrate: false })).shutdown();
    });

    it.each([
      ['operation_outputs', 'operation_outputs_pkey', 'workflow_uuid, function_id'],
      ['queues', 'queues_name_key', 'name'],
    ])('is refused if no valid index keeps the key of %s unique', async (table, constraint, columns) => {
      const database = await backend.newDatabase();
      await tamper(database, `alter table ${table} drop constraint ${constraint} cascade`);
      const problems = [`no valid index keeps ${columns} unique in the table ${table}`];
      const refused = { code: 'SCHEMA_MISMATCH', details: { problems } };
      expect(await failure(launch({ name: 'test', database, logger: silent }))).toMatchObject(refused);
    });
  },
  ['postgres'],
);
