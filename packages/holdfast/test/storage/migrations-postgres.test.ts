import { describe, expect, it } from 'vitest';
import { isHoldfastError } from '../../src/model/errors.js';
import { holdfastMigrations } from '../../src/storage/migrations/holdfast-migrations.js';
import { oldestCodeAt } from '../../src/storage/migrations/migration.js';
import { target } from '../../src/storage/migrations/migration-state.js';
import { sharedMigrations } from '../../src/storage/migrations/shared.js';
import { quoteIdentifier } from '../../src/storage/postgres/identifiers.js';
import { migratePostgres } from '../../src/storage/postgres/migrate.js';
import {
  administer,
  connectTo,
  countStatements,
  emptyDatabase,
  layout,
  listener,
  migrateUpTo,
  onlineVersions,
  quiet,
  versions,
} from './migrations-support.js';

const options = { schema: 'dbos', migrate: true, logger: quiet };

describe('migrating Postgres', () => {
  it('migrates an empty database to version 108 and to our own latest version', async () => {
    const client = await connectTo(await emptyDatabase());
    await migratePostgres(client, options);
    expect(await versions(client)).toEqual({ shared: 108, own: target.own });
    const indexes = (await layout(client)).filter((line) => line.startsWith('index'));
    expect(indexes.filter((line) => line.includes('INVALID'))).toEqual([]);
  });

  it('costs one statement and no lock when the schema is current', async () => {
    const url = await emptyDatabase();
    const client = await connectTo(url);
    await migratePostgres(client, options);
    const holder = await connectTo(url);
    await holder.query('select pg_advisory_lock(1234567890)');
    const statements = countStatements(client);
    await migratePostgres(client, options);
    await migratePostgres(client, { ...options, migrate: false });
    expect(statements).toHaveLength(2);
  });

  it('releases the lock and restores the statement timeout', async () => {
    const client = await connectTo(`${await emptyDatabase()}?statement_timeout=7000`);
    await migratePostgres(client, options);
    const { rows } = await client.query(
      "select count(*)::int as held from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())",
    );
    expect(rows[0].held).toBe(0);
    expect((await client.query('show statement_timeout')).rows).toEqual([{ statement_timeout: '7s' }]);
  });

  it('releases the lock if a migration fails, and keeps the last good version', async () => {
    const client = await connectTo(await emptyDatabase());
    await migrateUpTo(client, 20);
    await client.query('create view dbos.queues as select 1');
    await expect(migratePostgres(client, options)).rejects.toThrow();
    const { rows } = await client.query(
      "select count(*)::int as held from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())",
    );
    expect(rows[0].held).toBe(0);
    expect((await client.query('select version from dbos.dbos_migrations')).rows).toEqual([{ version: '20' }]);
  });

  it('quotes any schema name', async () => {
    const schema = `we"ird; Sch$body$'ema`;
    const client = await connectTo(await emptyDatabase());
    await migratePostgres(client, { ...options, schema });
    expect(await versions(client, schema)).toEqual(target);
    const q = quoteIdentifier(schema);
    await client.query(`select ${q}.enqueue_workflow('wf', 'q', workflow_id => 'a')`);
    await client.query(`select ${q}.send_message('a', '1')`);
    const { rows } = await client.query(`select count(*)::int as n from ${q}.notifications`);
    expect(rows).toEqual([{ n: 1 }]);
    await migratePostgres(client, options);
    const anyName = (lines: string[], prefix: string): string[] =>
      lines
        .map((line) => line.replaceAll(`${prefix}.`, 'S.').replaceAll(`${prefix.replaceAll("'", "''")}.`, 'S.'))
        .sort();
    expect(anyName(await layout(client, schema), q)).toEqual(anyName(await layout(client), 'dbos'));
  });

  it('continues with online migrations under such a schema name', async () => {
    const schema = `we"ird; Schema`;
    const client = await connectTo(await emptyDatabase());
    await migrateUpTo(client, 9, schema);
    await migratePostgres(client, { ...options, schema });
    expect(await versions(client, schema)).toEqual(target);
  });

  it('works for a role that may use its schema but must not create schemas', async () => {
    const url = await emptyDatabase();
    const owner = await connectTo(url);
    await administer('drop role if exists narrow');
    await administer("create role narrow login password 'narrow'");
    await owner.query('create schema dbos authorization narrow');
    const narrow = new URL(url);
    narrow.username = narrow.password = 'narrow';
    const client = await connectTo(narrow.href);
    await migratePostgres(client, options);
    expect(await versions(client)).toEqual(target);
  });

  it('keeps two schemas of one database apart', async () => {
    const client = await connectTo(await emptyDatabase());
    await migratePostgres(client, options);
    await migratePostgres(client, { ...options, schema: 'other' });
    expect(await versions(client, 'other')).toEqual(target);
  });
});

describe('migrating from an older version', () => {
  const someVersions = [1, 3, 10, 13, 20, 23, 24, 27, 35, 39, 40, 43, 45, 47, 60, 99, 100, 104, 107, 108];

  it('ends with the same layout from every version', async () => {
    const client = await connectTo(await emptyDatabase());
    await migratePostgres(client, options);
    const wanted = await layout(client);
    for (const version of someVersions) {
      await client.query('drop schema dbos cascade');
      await migrateUpTo(client, version);
      await client.query(
        `insert into dbos.workflow_status (workflow_uuid, status, name) values ('a', 'SUCCESS', 'kept')`,
      );
      await migratePostgres(client, options);
      expect(await layout(client), `from version ${version}`).toEqual(wanted);
      const { rows } = await client.query('select name, detached, status_reason from dbos.workflow_status');
      expect(rows).toEqual([{ name: 'kept', detached: false, status_reason: null }]);
    }
  });

  it('builds indexes without blocking writers', async () => {
    const client = await connectTo(await emptyDatabase());
    await migrateUpTo(client, 2);
    const statements = countStatements(client);
    await migratePostgres(client, options);
    const builds = statements.filter((text) => /\bindex\b/.test(text) && !text.includes('application_versions'));
    expect(builds.length).toBeGreaterThan(20);
    for (const text of builds.filter((build) => /create|drop/.test(build))) expect(text).toContain('concurrently');
  });

  it('drops and rebuilds the invalid index of a build that was killed', async () => {
    const reference = await connectTo(await emptyDatabase());
    await migratePostgres(reference, options);
    const client = await connectTo(await emptyDatabase());
    await migrateUpTo(client, 28);
    await client.query('create index idx_workflow_status_pending on dbos.workflow_status (status)');
    await client.query(
      `update pg_index set indisvalid = false where indexrelid = 'dbos.idx_workflow_status_pending'::regclass`,
    );
    await migratePostgres(client, options);
    expect(await layout(client)).toEqual(await layout(reference));
  });

  it('continues from a version whose column was added but whose index was not', async () => {
    const client = await connectTo(await emptyDatabase());
    for (const version of onlineVersions) {
      await client.query('drop schema if exists dbos cascade');
      await migrateUpTo(client, version);
      const before = sharedMigrations.filter((migration) => migration.version < version).at(-1)?.version ?? 0;
      await client.query('update dbos.dbos_migrations set version = $1', [before]);
      await migratePostgres(client, options);
      expect(await versions(client), `interrupted at ${version}`).toEqual(target);
    }
  });

  it('gives databases that DBOS left at 22, 23 and 24 the same layout', async () => {
    const reference = await connectTo(await emptyDatabase());
    await migratePostgres(reference, options);
    const [forked, parent] = ['idx_workflow_status_forked_from', 'idx_workflow_status_parent_workflow_id'];
    const partial = `create index ${forked} on dbos.workflow_status (forked_from) where forked_from is not null`;
    const shapes = {
      22: `drop index dbos.${forked}`,
      23: `drop index dbos.${forked}; ${partial}`,
      24: `drop index dbos.${forked}; ${partial}; drop index dbos.${parent}`,
    };
    for (const [version, statements] of Object.entries(shapes)) {
      const client = await connectTo(await emptyDatabase());
      await migrateUpTo(client, 21);
      await client.query(statements);
      await client.query(`update dbos.dbos_migrations set version = ${version}`);
      await migratePostgres(client, options);
      expect(await layout(client), `from ${version} of DBOS`).toEqual(await layout(reference));
    }
  });

  it('skips the primary key of messages if there is one', async () => {
    const client = await connectTo(await emptyDatabase());
    await migrateUpTo(client, 9);
    await client.query('alter table dbos.notifications add primary key (message_uuid)');
    await migratePostgres(client, options);
    expect(await versions(client)).toEqual(target);
  });

  it('does not block transactions that use a table, and retries later', async () => {
    const url = await emptyDatabase();
    const client = await connectTo(url);
    await migrateUpTo(client, 100);
    const busy = await connectTo(url);
    await busy.query('begin; lock table dbos.queues in row exclusive mode');
    const pauses: number[] = [];
    const pause = async (ms: number): Promise<void> => {
      pauses.push(ms);
      await busy.query('commit');
    };
    await migratePostgres(client, { ...options, pause });
    expect(pauses).toEqual([1000]);
    expect(await versions(client)).toEqual(target);
  });
});

describe('verifying instead of migrating', () => {
  const verify = { ...options, migrate: false };

  it('reports the versions and what to do, and changes nothing', async () => {
    const client = await connectTo(await emptyDatabase());
    const empty = await migratePostgres(client, verify).catch((error) => error);
    expect(isHoldfastError(empty, 'MIGRATION_REQUIRED')).toBe(true);
    expect(empty.message).toMatch(/dbos_migrations is at 0 and needs 108.*migrate: true/);
    expect(await layout(client)).toEqual([]);
    await migrateUpTo(client, 47);
    await expect(migratePostgres(client, verify)).rejects.toMatchObject({
      code: 'MIGRATION_REQUIRED',
      details: { found: { shared: 47, own: 0 }, needed: target },
    });
  });

  it('accepts a newer schema that allows this code, with one warning, and refuses any other newer schema', async () => {
    const client = await connectTo(await emptyDatabase());
    await migratePostgres(client, options);
    const { rows } = await client.query('select oldest_code::int as oldest from dbos.holdfast_migrations');
    expect(rows).toEqual([{ oldest: oldestCodeAt(holdfastMigrations, target.own) }]);
    const refuses = async (): Promise<void> => {
      for (const migrate of [true, false]) {
        const migrating = migratePostgres(client, { ...options, migrate });
        await expect(migrating).rejects.toMatchObject({ code: 'SCHEMA_TOO_NEW' });
      }
    };
    // Also next to a newer DBOS.
    await client.query('update dbos.dbos_migrations set version = 122');
    await client.query(`update dbos.holdfast_migrations set version = 99, oldest_code = ${target.own}`);
    const before = await layout(client);
    for (const migrate of [true, false]) {
      const logger = listener();
      await migratePostgres(client, { ...options, migrate, logger });
      expect(logger.lines).toEqual([expect.stringMatching(/migrated by a newer Holdfast.*is at 99.*upgrade/)]);
    }
    expect(await layout(client)).toEqual(before);
    await client.query(`update dbos.holdfast_migrations set oldest_code = ${target.own + 1}`);
    await refuses();
    await client.query('update dbos.holdfast_migrations set oldest_code = null');
    await refuses();
    await client.query('alter table dbos.holdfast_migrations drop column oldest_code');
    await refuses();
  });

  it('keeps a layout closed to older code after a migration closed it; each of our migrations names the code', () => {
    const list = [
      { version: 1, name: 'a' },
      { version: 2, name: 'b', oldestCode: 2 },
      { version: 3, name: 'c', oldestCode: 2 },
      { version: 5, name: 'd', oldestCode: 5 },
      { version: 6, name: 'e', oldestCode: 2 },
    ];
    expect([1, 2, 3, 4, 5, 6].map((version) => oldestCodeAt(list, version))).toEqual([null, 2, 2, 2, 5, 5]);
    const silent = holdfastMigrations.filter(({ version, oldestCode }) => version >= 12 && oldestCode === undefined);
    expect(silent).toEqual([]);
  });
});
