import Sqlite from 'better-sqlite3';
import { sql as drizzleSql } from 'drizzle-orm';
import { drizzle as drizzleSqlite } from 'drizzle-orm/better-sqlite3';
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres';
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js';
import createKnex from 'knex';
import { CamelCasePlugin, Kysely, sql as kyselySql, PostgresDialect, SqliteDialect } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import { openDatabaseSync, sqliteDrivers, sqliteFile, type TestDriver } from '../../../../test-support/sqlite.mjs';
import type { Datasource, DatasourceOptions } from '../../src/index.js';
import { betterSqlite3Datasource } from '../../src/storage/caller/adapters/better-sqlite3.js';
import { drizzleDatasource } from '../../src/storage/caller/adapters/drizzle.js';
import { knexDatasource } from '../../src/storage/caller/adapters/knex.js';
import { kyselyDatasource } from '../../src/storage/caller/adapters/kysely.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { postgresDatasource } from '../../src/storage/caller/adapters/postgres-js.js';
import { sqliteDatasource } from '../../src/storage/caller/adapters/sqlite.js';

/** A library that is connected to a database: its datasource, and statements that use the library's own API. */
export interface Opened<Tx = unknown> {
  readonly datasource: Datasource<Tx>;
  /** Adds to a counter, and creates the counter if it does not exist. */
  add(tx: Tx, counter: string, by: number): Promise<unknown>;
  read(tx: Tx, counter: string): Promise<number>;
  close(): Promise<unknown>;
}

/** A library with an adapter, on one of the databases that the adapter supports. */
export interface Library {
  readonly name: string;
  readonly dialect: 'postgres' | 'sqlite';
  /** The driver that opens SQLite files. */
  readonly driver?: TestDriver;
  open(url: string, options?: DatasourceOptions): Opened;
}

const upsert = (id: string, by: string): string =>
  `insert into counters (id, n) values (${id}, ${by}) on conflict (id) do update set n = counters.n + excluded.n`;
export const countersTable = 'create table if not exists counters (id text primary key, n int not null)';

/** Reads the only column of the only row, whatever its name. */
const numberIn = (rows: readonly unknown[]): number => Number(Object.values(rows[0] ?? {})[0] ?? 0);

const onPg: Library = library('pg', 'postgres', (url, options) => {
  const pool = quietPool(url);
  return opened(pgDatasource(pool, options), {
    add: (tx, id, by) => tx.query(upsert('$1', '$2'), [id, by]),
    read: async (tx, id) => numberIn((await tx.query('select n from counters where id = $1', [id])).rows),
    close: () => pool.end(),
  });
});

type Naming = 'camel' | 'pascal' | 'kebab';

const onPostgres = (naming?: Naming): Library =>
  library(named('postgres.js', naming), 'postgres', (url, options) => {
    const sql = postgres(url, { max: 5, onnotice: () => {}, ...(naming && { transform: postgres[naming] }) });
    return opened(postgresDatasource(sql, options), {
      add: (tx, id, by) => tx.unsafe(upsert('$1', '$2'), [id, by]),
      read: async (tx, id) => numberIn(await tx`select n from counters where id = ${id}`),
      close: () => sql.end({ timeout: 1 }),
    });
  });

const knexOn = (dialect: Library['dialect'], naming?: 'camel'): Library =>
  library(named(`knex (${dialect})`, naming), dialect, (url, options) => {
    const knex = createKnex({
      ...(dialect === 'postgres'
        ? { client: 'pg', connection: url, pool: { min: 0, max: 5 } }
        : { client: 'better-sqlite3', connection: { filename: sqliteFile(url) }, useNullAsDefault: true }),
      ...(naming && { postProcessResponse: renamed }),
    });
    return opened(knexDatasource(knex, options), {
      add: async (tx, id, by) => {
        await tx('counters').insert({ id, n: 0 }).onConflict('id').ignore();
        await tx('counters').where({ id }).increment('n', by);
      },
      read: async (tx, id) => numberIn(await tx('counters').select('n').where({ id })),
      close: () => knex.destroy(),
    });
  });

interface Tables {
  readonly counters: { readonly id: string; readonly n: number };
}

const kyselyOn = (dialect: Library['dialect']): Library =>
  library(`kysely (${dialect})`, dialect, (url, options) => {
    const db = new Kysely<Tables>({
      // The plugin renames the columns of results. Holdfast's own statements must not be affected.
      plugins: [new CamelCasePlugin()],
      dialect:
        dialect === 'postgres'
          ? new PostgresDialect({ pool: quietPool(url) })
          : new SqliteDialect({ database: new Sqlite(sqliteFile(url)) }),
    });
    return opened(kyselyDatasource(db, options), {
      add: (tx, id, by) =>
        tx
          .insertInto('counters')
          .values({ id, n: by })
          .onConflict((oc) => oc.column('id').doUpdateSet({ n: kyselySql`counters.n + excluded.n` }))
          .execute(),
      read: async (tx, id) => numberIn(await tx.selectFrom('counters').select('n').where('id', '=', id).execute()),
      close: () => db.destroy(),
    });
  });

const drizzleOnPg: Library = library('drizzle (pg)', 'postgres', (url, options) => {
  const pool = quietPool(url);
  return opened(drizzleDatasource(drizzlePg(pool), options), {
    add: async (tx, id, by) => tx.execute(drizzleUpsert(id, by)),
    read: async (tx, id) => numberIn((await tx.execute(drizzleSql`select n from counters where id = ${id}`)).rows),
    close: () => pool.end(),
  });
});

const drizzleOnPostgres = (naming?: Naming): Library =>
  library(named('drizzle (postgres.js)', naming), 'postgres', (url, options) => {
    const sql = postgres(url, { max: 5, onnotice: () => {}, ...(naming && { transform: postgres[naming] }) });
    return opened(drizzleDatasource(drizzlePostgresJs(sql), options), {
      add: async (tx, id, by) => tx.execute(drizzleUpsert(id, by)),
      read: async (tx, id) => numberIn(await tx.execute(drizzleSql`select n from counters where id = ${id}`)),
      close: () => sql.end({ timeout: 1 }),
    });
  });

const drizzleOnSqlite: Library = library('drizzle (better-sqlite3)', 'sqlite', (url) => {
  const client = new Sqlite(sqliteFile(url));
  return opened(drizzleDatasource(drizzleSqlite(client)), {
    add: async (tx, id, by) => tx.run(drizzleUpsert(id, by)),
    read: async (tx, id) => numberIn(tx.all(drizzleSql`select n from counters where id = ${id}`)),
    close: async () => client.close(),
  });
});

const onBetterSqlite3: Library = library('better-sqlite3', 'sqlite', (url) => {
  const db = new Sqlite(sqliteFile(url));
  return opened(betterSqlite3Datasource(db), {
    add: async (tx, id, by) => tx.prepare(upsert('?', '?')).run(id, by),
    read: async (tx, id) => numberIn([tx.prepare('select n from counters where id = ?').get(id)]),
    close: async () => db.close(),
  });
});

/** `returnArrays` is an option of Node 24; older versions ignore it. */
const nodeSqlite = (returnArrays: boolean): Library => ({
  ...library(`node:sqlite${returnArrays ? ' with rows as arrays' : ''}`, 'sqlite', (url) => {
    const db = openDatabaseSync(url, { returnArrays });
    return opened(sqliteDatasource(db), {
      add: async (tx, id, by) => tx.prepare(upsert('?', '?')).run(id, by),
      read: async (tx, id) => numberIn([tx.prepare('select n from counters where id = ?').get(id)]),
      close: async () => db.close(),
    });
  }),
  driver: 'node:sqlite',
});
const onNodeSqlite = nodeSqlite(false);

const onThisNode = ({ driver = 'node:sqlite', dialect }: Library): boolean =>
  dialect === 'postgres' || sqliteDrivers.includes(driver);

export const libraries: readonly Library[] = [
  onPg,
  onPostgres(),
  knexOn('postgres'),
  kyselyOn('postgres'),
  drizzleOnPg,
  drizzleOnPostgres(),
  onNodeSqlite,
  onBetterSqlite3,
  knexOn('sqlite'),
  kyselyOn('sqlite'),
  drizzleOnSqlite,
].filter(onThisNode);

/** Libraries that are configured to rename columns or to return rows without column names. */
export const renaming: readonly Library[] = [
  onPostgres('camel'),
  onPostgres('pascal'),
  onPostgres('kebab'),
  drizzleOnPostgres('camel'),
  knexOn('postgres', 'camel'),
  knexOn('sqlite', 'camel'),
  nodeSqlite(true),
].filter(onThisNode);

/** The library with the fewest layers on each database. */
export const plainest = {
  postgres: onPg,
  sqlite: sqliteDrivers[0] === 'node:sqlite' ? onNodeSqlite : onBetterSqlite3,
} as const;

/** Returns true if the library may open the file of an app: it must use the same copy of SQLite. */
export function fitsAppFile({ driver }: Library): boolean {
  return driver === undefined || driver === sqliteDrivers[0];
}

function library(name: string, dialect: Library['dialect'], open: Library['open']): Library {
  return { name, dialect, open, ...(dialect === 'sqlite' && { driver: 'better-sqlite3' }) };
}

function named(library: string, naming: Naming | undefined): string {
  return naming ? `${library} with names in ${naming} case` : library;
}

/** Renames columns as applications do with knex, which has no such option: in rows, or in an object with `rows`. */
function renamed(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(renamed);
  if (typeof result !== 'object' || result === null) return result;
  if ('rows' in result) return { ...result, rows: renamed(result.rows) };
  const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(result).map(([name, value]) => [camel(name), value]));
}

function opened<Tx>(datasource: Datasource<Tx>, statements: Omit<Opened<Tx>, 'datasource'>): Opened {
  return { datasource, ...statements } as unknown as Opened;
}

function drizzleUpsert(id: string, by: number) {
  return drizzleSql`insert into counters (id, n) values (${id}, ${by})
    on conflict (id) do update set n = counters.n + excluded.n`;
}

/** Ignores connection errors: tests cut connections, and databases are dropped before their last connection closes. */
function quietPool(url: string): pg.Pool {
  return new pg.Pool({ connectionString: url, max: 5 }).on('error', () => {});
}

/** Wraps a datasource and collects every transaction that starts on it. */
export function watched<Tx>(real: Datasource<Tx>): { datasource: Datasource<Tx>; under: Promise<unknown>[] } {
  const under: Promise<unknown>[] = [];
  const transact: Datasource<Tx>['transact'] = (mode, work) => {
    const begun = real.transact(mode, work);
    under.push(begun.catch(() => {}));
    return begun;
  };
  return { datasource: { ...real, transact }, under };
}
