import type { Database } from 'better-sqlite3';
import type { ExtractTablesWithRelations } from 'drizzle-orm';
import { drizzle as drizzleSqlite } from 'drizzle-orm/better-sqlite3';
import { drizzle as drizzlePg, type NodePgTransaction } from 'drizzle-orm/node-postgres';
import type { Knex } from 'knex';
import type { Kysely, Transaction } from 'kysely';
import type { Pool, PoolClient } from 'pg';
import type { Sql, TransactionSql } from 'postgres';
import { expectTypeOf } from 'vitest';
import type { TestDatabaseSync } from '../../../../test-support/sqlite.mjs';
import { type Client, type Datasource, type Topic, transaction, type WorkflowHandle } from '../../src/index.js';
import { betterSqlite3Datasource } from '../../src/storage/caller/adapters/better-sqlite3.js';
import { drizzleDatasource } from '../../src/storage/caller/adapters/drizzle.js';
import { knexDatasource } from '../../src/storage/caller/adapters/knex.js';
import { kyselyDatasource } from '../../src/storage/caller/adapters/kysely.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { postgresDatasource } from '../../src/storage/caller/adapters/postgres-js.js';
import { sqliteDatasource } from '../../src/storage/caller/adapters/sqlite.js';

/** The types that the compiler infers for transactions. See inference.test-d.ts. */

interface Tables {
  readonly accounts: { readonly id: string; readonly cents: number };
}
declare const pool: Pool;
declare const sql: Sql;
declare const knex: Knex;
declare const kysely: Kysely<Tables>;
declare const database: Database;
/** The part of the types of Node 22 and newer that matters here. */
declare const databaseSync: TestDatabaseSync & { readonly own: true };
declare const client: Client;
declare const approvals: Topic<boolean>;

export function datasources(): void {
  expectTypeOf(pgDatasource(pool, { schema: 'app' })).toEqualTypeOf<Datasource<PoolClient>>();
  expectTypeOf(postgresDatasource(sql)).toExtend<Datasource<TransactionSql>>();
  expectTypeOf(knexDatasource(knex)).toEqualTypeOf<Datasource<Knex.Transaction>>();
  expectTypeOf(kyselyDatasource(kysely)).toEqualTypeOf<Datasource<Transaction<Tables>>>();
  expectTypeOf(betterSqlite3Datasource(database)).toEqualTypeOf<Datasource<Database>>();
  expectTypeOf(sqliteDatasource(databaseSync)).toEqualTypeOf<Datasource<typeof databaseSync>>();
  // @ts-expect-error: a Database of better-sqlite3
  sqliteDatasource(database);
  type None = Record<string, never>;
  transaction(drizzleDatasource(drizzlePg(pool)), 'x', async (tx) => {
    expectTypeOf(tx).toExtend<Pick<NodePgTransaction<None, ExtractTablesWithRelations<None>>, 'insert' | 'rollback'>>();
  });
  const onFile = drizzleSqlite(database);
  transaction(drizzleDatasource(onFile), 'x', (tx) => expectTypeOf(tx).toEqualTypeOf<typeof onFile>());

  // @ts-expect-error: a pool of another library
  pgDatasource(sql);
  // @ts-expect-error: no such option
  pgDatasource(pool, { schemas: 'app' });
}

export async function transactions(): Promise<void> {
  const db = kyselyDatasource(kysely);
  const debit = transaction(db, 'debit', async (tx, from: string, cents: number) => {
    expectTypeOf(tx).toEqualTypeOf<Transaction<Tables>>();
    return { from, left: 100 - cents };
  });
  expectTypeOf(debit).parameters.toEqualTypeOf<[from: string, cents: number]>();
  expectTypeOf(debit).returns.toEqualTypeOf<Promise<{ from: string; left: number }>>();

  const count = transaction(db, 'count', () => 1, { isolation: 'serializable', readOnly: true, retries: 3 });
  expectTypeOf(count).toEqualTypeOf<() => Promise<number>>();

  // @ts-expect-error: cents are missing
  void debit('ada');
  // @ts-expect-error: no such level
  transaction(db, 'x', () => 1, { isolation: 'read uncommitted' });
  // @ts-expect-error: a transaction has no timeout of its own
  transaction(db, 'x', () => 1, { timeout: '1s' });
}

export async function outbox(tx: PoolClient): Promise<void> {
  const handle = await client.startIn<number>(tx, 'checkout', { queue: 'orders' }, 1, 'two');
  expectTypeOf(handle).toEqualTypeOf<WorkflowHandle<number>>();
  expectTypeOf(await approvals.sendIn(tx, 'order-7', true, { app: client })).toEqualTypeOf<void>();
  // @ts-expect-error: not a message of this topic
  void approvals.sendIn(tx, 'order-7', 'yes');
}
