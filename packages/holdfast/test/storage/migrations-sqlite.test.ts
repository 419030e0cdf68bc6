import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { holdfastMigrations } from '../../src/storage/migrations/holdfast-migrations.js';
import { oldestCodeAt, plainStatements } from '../../src/storage/migrations/migration.js';
import { target } from '../../src/storage/migrations/migration-state.js';
import { sharedMigrations } from '../../src/storage/migrations/shared.js';
import { migratePostgres } from '../../src/storage/postgres/migrate.js';
import { column, type SqliteConnection, scalar } from '../../src/storage/sqlite/connection.js';
import { sqliteDdl } from '../../src/storage/sqlite/ddl.js';
import { loadDriver } from '../../src/storage/sqlite/drivers.js';
import { migrateSqlite } from '../../src/storage/sqlite/migrate.js';
import {
  compileMigrations,
  connectTo,
  emptyDatabase,
  listener,
  migrateInProcess,
  quiet,
} from './migrations-support.js';

const options = { migrate: true, logger: quiet };
const driver = await loadDriver();

function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'test.sqlite');
}

function open(path = newFile()): SqliteConnection {
  const db = driver.open(path);
  onTestFinished(() => void db.close());
  return db;
}

function versions(db: SqliteConnection): object {
  const all = (table: string): unknown[] => column(db, `select version from ${table}`);
  return { shared: all('dbos_migrations'), own: all('holdfast_migrations') };
}
const current = { shared: [target.shared], own: [target.own] };

function layout(db: SqliteConnection): unknown[] {
  return column(db, 'select sql from sqlite_master where sql is not null order by type, name');
}

function migrateUpTo(db: SqliteConnection, version: number): void {
  for (const migration of sharedMigrations.filter((m) => m.version <= version)) {
    for (const statement of plainStatements(sqliteDdl, migration)) db.exec(statement);
  }
  db.exec('create table dbos_migrations (version integer not null primary key)');
  db.exec(`insert into dbos_migrations values (${version})`);
}

describe('migrating SQLite', () => {
  it('migrates an empty file to version 108 and to our own latest version', () => {
    const db = open();
    migrateSqlite(db, options);
    expect(versions(db)).toEqual(current);
    migrateSqlite(db, { ...options, migrate: false });
  });

  it('has the columns of Postgres, except event_dispatch_kv and send_seq, which row order replaces', async () => {
    const client = await connectTo(await emptyDatabase());
    await migratePostgres(client, { schema: 'dbos', ...options });
    const { rows } = await client.query(
      `select table_name || '.' || column_name || case when is_nullable = 'NO' then '!' else '' end as c
         from information_schema.columns where table_schema = 'dbos' and table_name <> 'event_dispatch_kv'
          and column_name <> 'send_seq'`,
    );
    const db = open();
    migrateSqlite(db, options);
    const columns = column(
      db,
      `select m.name || '.' || c.name || case when c."notnull" then '!' else '' end
         from sqlite_master m join pragma_table_info(m.name) c where m.type = 'table'`,
    );
    expect(columns.sort()).toEqual(rows.map((row) => row.c).sort());
  });

  it('fills in whole milliseconds, UUIDs and zeros, and cascades deletions', () => {
    const db = open();
    migrateSqlite(db, options);
    const before = Date.now() - 2;
    db.exec("insert into workflow_status (workflow_uuid) values ('a')");
    db.exec("insert into notifications (destination_uuid, message) values ('a', '1')");
    db.exec("insert into queues (name) values ('q')");
    const row = db.prepare('select *, typeof(created_at) as type from workflow_status').all()[0] as Record<
      string,
      number
    >;
    expect(row).toMatchObject({ type: 'integer', priority: 0, detached: 0, was_forked_from: 0, recovery_attempts: 0 });
    expect(row.created_at).toBeGreaterThanOrEqual(before);
    expect(row.created_at).toBeLessThanOrEqual(Date.now() + 2);
    const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    expect(scalar(db, 'select message_uuid from notifications')).toMatch(uuid);
    expect(scalar(db, 'select queue_id from queues')).toMatch(uuid);
    db.exec('delete from workflow_status');
    expect(scalar(db, 'select count(*) from notifications')).toBe(0);
  });

  it('ends with the same layout from every version, and keeps the stored rows', () => {
    const reference = open(':memory:');
    migrateSqlite(reference, options);
    for (const { version } of sharedMigrations) {
      const db = open(':memory:');
      migrateUpTo(db, version);
      db.exec("insert into workflow_status (workflow_uuid, name) values ('a', 'kept')");
      migrateSqlite(db, options);
      expect(versions(db), `from ${version}`).toEqual(current);
      expect(new Set(layout(db)), `from ${version}`).toEqual(new Set(layout(reference)));
      expect(column(db, 'select name from workflow_status')).toEqual(['kept']);
    }
  });

  it('uses the indexes for recovery and queues', () => {
    const db = open();
    migrateSqlite(db, options);
    const plans = {
      "status in ('ENQUEUED', 'PENDING', 'DELAYED') and workflow_deadline_epoch_ms is not null and workflow_deadline_epoch_ms <= 5":
        'idx_workflow_status_deadline',
      "status = 'PENDING' and application_version = 'v' and executor_id = 'e'": 'idx_holdfast_pending_executor',
      "status = 'CANCELLED' and completed_at >= 5": 'idx_holdfast_cancelled',
      "status = 'ENQUEUED' and queue_name = 'q' and application_version = 'v' order by priority, enqueue_seq, created_at":
        'idx_holdfast_waiting',
      "status = 'ENQUEUED' and queue_name = 'q' and application_version is null and queue_partition_key = 'p' order by priority, enqueue_seq, created_at":
        'idx_holdfast_waiting_partition',
      "status = 'PENDING' and (resting_owner = owner_xid) is not true and queue_name = 'q' and queue_partition_key = 'p'":
        'idx_holdfast_slots',
      "status = 'PENDING' and (resting_owner = owner_xid) and queue_name = 'q'": 'idx_holdfast_resting',
      "status = 'DELAYED' and delay_until_epoch_ms <= 5": 'idx_workflow_status_delayed',
    };
    for (const [condition, index] of Object.entries(plans)) {
      const plan = db.prepare(`explain query plan select output from workflow_status where ${condition}`).all();
      expect(JSON.stringify(plan)).toContain(index);
    }
  });

  it('only verifies the version with `migrate: false`', () => {
    const db = open();
    const verify = { ...options, migrate: false };
    expect(() => migrateSqlite(db, verify)).toThrow(/dbos_migrations is at 0 and needs 108/);
    expect(layout(db)).toEqual([]);
  });

  it('accepts a newer file that allows this code, with one warning, and refuses any other newer file', () => {
    const db = open();
    migrateSqlite(db, options);
    const said = scalar(db, 'select oldest_code from holdfast_migrations');
    expect(said).toBe(oldestCodeAt(holdfastMigrations, target.own));
    const refuses = (): void => {
      for (const migrate of [true, false]) {
        expect(() => migrateSqlite(db, { ...options, migrate })).toThrow(
          expect.objectContaining({ code: 'SCHEMA_TOO_NEW' }),
        );
      }
    };
    db.exec(`update holdfast_migrations set version = 99, oldest_code = ${target.own}`);
    const before = layout(db);
    for (const migrate of [true, false]) {
      const logger = listener();
      migrateSqlite(db, { migrate, logger });
      expect(logger.lines).toEqual([expect.stringMatching(/migrated by a newer Holdfast.*is at 99.*upgrade/)]);
    }
    expect([layout(db), versions(db)]).toEqual([before, { ...current, own: [99] }]);
    db.exec(`update holdfast_migrations set oldest_code = ${target.own + 1}`);
    refuses();
    db.exec('update holdfast_migrations set oldest_code = null');
    refuses();
    db.exec('alter table holdfast_migrations drop column oldest_code');
    refuses();
  });

  it('refuses a file with another numbering, and does not change it', () => {
    const db = open();
    // DBOS for Python counts positions on SQLite: version 36 there has the layout of version 41 on Postgres.
    migrateUpTo(db, 41);
    db.exec('update dbos_migrations set version = 36');
    const before = layout(db);
    expect(() => migrateSqlite(db, options)).toThrow(expect.objectContaining({ code: 'MIGRATION_REQUIRED' }));
    expect(layout(db)).toEqual(before);
  });

  it('rolls a failing migration back completely', () => {
    const db = open();
    migrateUpTo(db, 14);
    db.exec('alter table workflow_schedules add column cron_timezone text');
    db.exec('update dbos_migrations set version = 14');
    expect(() => migrateSqlite(db, options)).toThrow();
    const columns = column(db, "select name from pragma_table_info('workflow_schedules')");
    expect(columns).not.toContain('last_fired_at');
    expect(column(db, 'select version from dbos_migrations')).toEqual([14]);
  });
});

describe('a race of many processes to migrate one SQLite file', () => {
  let compiled: string;
  beforeAll(() => {
    compiled = compileMigrations();
  });
  afterAll(() => rmSync(compiled, { recursive: true, force: true }));

  it.each(['wal', 'delete'])('ends with one schema when 20 processes race on an empty file (%s)', async (journal) => {
    const path = newFile();
    const db = open(path);
    db.exec(`pragma busy_timeout = 5000; pragma journal_mode = ${journal}`);
    const children = Array.from({ length: 20 }, () => migrateInProcess(compiled, path));
    const codes = await Promise.all(children.map((child) => child.ended));
    for (const child of children) expect(child.output()).toContain(`at ${target.shared}/${target.own}`);
    expect(codes).toEqual(children.map(() => 0));
    const reference = open();
    migrateSqlite(reference, options);
    expect(layout(db)).toEqual(layout(reference));
    expect(versions(db)).toEqual(current);
  });

  it('is finished by another process if a process is killed meanwhile', async () => {
    const path = newFile();
    for (const delay of [60, 90, 120, 150]) {
      const child = migrateInProcess(compiled, path);
      await new Promise((resolve) => setTimeout(resolve, delay));
      child.kill();
      await child.ended;
    }
    const last = migrateInProcess(compiled, path);
    expect(await last.ended, last.output()).toBe(0);
    expect(versions(open(path))).toEqual(current);
  });
});
