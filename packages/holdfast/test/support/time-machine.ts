import { rmSync } from 'node:fs';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import { openSqlite, sqliteFile } from '../../../../test-support/sqlite.mjs';

/** A backup of a live database. Restoring takes one transaction, while processes continue to use the database. */
export interface Backup {
  restore(): Promise<void>;
}

/** `before` runs while all tables are locked. It sees the rows about to be lost, and the saved rows in that schema. */
export interface PostgresBackup {
  restore(before?: (client: pg.Client, saved: string) => Promise<void>): Promise<void>;
}

let backups = 0;

export function backUp(database: string): Promise<Backup> {
  return database.startsWith('sqlite') ? backUpSqlite(database) : backUpPostgres(database);
}

async function backUpSqlite(database: string): Promise<Backup> {
  const copy = `${sqliteFile(database)}.${backups++}.backup`;
  onTestFinished(() => rmSync(copy, { force: true }));
  // Another process may be writing to the file.
  const use = (work: (db: ReturnType<typeof openSqlite>) => void): void => {
    const db = openSqlite(database, { timeout: 30_000 });
    try {
      work(db);
    } finally {
      db.close();
    }
  };
  use((db) => db.exec(`vacuum into '${copy}'`));
  const restore = async (): Promise<void> =>
    use((db) => {
      db.exec(`attach '${copy}' as saved; pragma foreign_keys = off`);
      const named = "name not like 'sqlite_%'";
      const tables = db.query(`select name from saved.sqlite_master where type = 'table' and ${named}`);
      const triggers = db.query("select name, sql from sqlite_master where type = 'trigger'");
      db.exec('begin immediate');
      for (const { name } of triggers) db.exec(`drop trigger main."${name}"`);
      for (const { name } of tables) {
        db.exec(`delete from main."${name}"; insert into main."${name}" select * from saved."${name}"`);
      }
      for (const { sql } of triggers) db.exec(sql as string);
      db.exec('commit');
    });
  return { restore };
}

/** Backs up all tables of Holdfast, and the named tables of other schemas. */
export async function backUpPostgres(database: string, also: readonly string[] = []): Promise<PostgresBackup> {
  const saved = `saved_${backups++}`;
  const tables = await within(database, async (client) => {
    const { rows } = await client.query(
      `select table_schema as schema, table_name as name, array_to_string(array(select quote_ident(c.column_name) from information_schema.columns c
       where c.table_schema = t.table_schema and c.table_name = t.table_name and c.is_generated = 'NEVER'), ', ') as columns
       from information_schema.tables t
       where (table_schema = 'dbos' or table_schema || '.' || table_name = any($1)) and table_type = 'BASE TABLE'`,
      [also],
    );
    // One snapshot for all tables, like a dump.
    await client.query(`begin isolation level repeatable read; create schema ${saved}`);
    for (const { schema, name } of rows)
      await client.query(`create table ${saved}."${name}" as table ${schema}."${name}"`);
    await client.query('commit');
    return rows as { schema: string; name: string; columns: string }[];
  });
  const restore: PostgresBackup['restore'] = (before) =>
    within(database, async (client) => {
      // Without triggers and foreign keys, like a data-only restore. Readers and writers wait until the restore ends.
      await client.query('begin; set local session_replication_role = replica');
      const all = tables.map(({ schema, name }) => `${schema}."${name}"`).join(', ');
      await client.query(`lock table ${all} in access exclusive mode`);
      await before?.(client, saved);
      await client.query(`truncate ${all}`);
      for (const { schema, name, columns } of tables) {
        await client.query(
          `insert into ${schema}."${name}" (${columns}) overriding system value select ${columns} from ${saved}."${name}"`,
        );
      }
      await client.query('commit');
    });
  return { restore };
}

async function within<T>(database: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(database);
  // The server may crash while the client is connected. The statement in progress then fails.
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
