import { drizzle } from 'drizzle-orm/node-postgres';
import createKnex from 'knex';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { expect, inject, it, onTestFinished } from 'vitest';
import { sqliteDrivers } from '../../../../test-support/sqlite.mjs';
import { stream, transaction, workflow } from '../../src/index.js';
import { betterSqlite3Datasource } from '../../src/storage/caller/adapters/better-sqlite3.js';
import { drizzleDatasource } from '../../src/storage/caller/adapters/drizzle.js';
import { knexDatasource } from '../../src/storage/caller/adapters/knex.js';
import { kyselyDatasource } from '../../src/storage/caller/adapters/kysely.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { postgresDatasource } from '../../src/storage/caller/adapters/postgres-js.js';
import { sqliteDatasource } from '../../src/storage/caller/adapters/sqlite.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, thrown } from '../support/faults.js';
import { counter, openUserData } from '../support/user-data.js';

// P8. Bad input is a typed error, before any side effect.
it('refuses a value that is not a database of the expected library, and reveals nothing of it', () => {
  const makers: readonly ((given: never) => unknown)[] = [
    pgDatasource,
    postgresDatasource,
    knexDatasource,
    kyselyDatasource,
    drizzleDatasource,
    betterSqlite3Datasource,
    sqliteDatasource,
  ];
  for (const make of makers) {
    for (const given of [undefined, null, 7, 'postgres://ada:secret@host/db', {}, { password: 'secret' }, () => {}]) {
      const error = thrown(() => make(given as never));
      expect(error).toMatchObject({ code: 'INVALID_OPTION' });
      expect(JSON.stringify([error.message, error.details])).not.toContain('secret');
    }
  }
});

it.skipIf(!sqliteDrivers.includes('better-sqlite3'))(
  'refuses a transaction of knex, which would end while steps still use it',
  async () => {
    const knex = createKnex({ client: 'better-sqlite3', connection: ':memory:', useNullAsDefault: true });
    onTestFinished(() => knex.destroy());
    await knex.transaction(async (trx) => {
      expect(thrown(() => knexDatasource(trx))).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('pass the result of knex()'),
      });
    });
  },
);

it('refuses transactions of kysely and drizzle, which would end while steps still use them', async () => {
  const pool = new pg.Pool({ connectionString: inject('postgresUrl') });
  const db = new Kysely({ dialect: new PostgresDialect({ pool }) });
  onTestFinished(() => db.destroy());
  const refused: unknown[] = [];
  await db.transaction().execute(async (trx) => refused.push(thrown(() => kyselyDatasource(trx))));
  await drizzle(pool).transaction(async (tx) => refused.push(thrown(() => drizzleDatasource(tx))));
  const what = (library: string) => expect.stringContaining(`is a transaction of ${library}`);
  expect(refused).toMatchObject([
    { code: 'INVALID_OPTION', message: what('kysely') },
    { code: 'INVALID_OPTION', message: what('drizzle') },
  ]);
});

it('refuses a single pg connection, which concurrent transactions would share, and asks for a pool', () => {
  for (const client of [new pg.Client(), Object.assign(new pg.Client(), { release() {} })]) {
    const over = drizzle(client as pg.Client);
    expect(thrown(() => drizzleDatasource(over))).toMatchObject({ code: 'INVALID_OPTION', message: /a Pool/ });
    expect(thrown(() => pgDatasource(client as never))).toMatchObject({ code: 'INVALID_OPTION', message: /a Pool/ });
  }
});

it('accepts any kind of pg pool', () => {
  class OwnPool extends pg.Pool {}
  for (const pool of [new pg.Pool(), new OwnPool(), new Proxy(new pg.Pool(), {})]) {
    expect(pgDatasource(pool)).toMatchObject({ dialect: 'postgres' });
    expect(drizzleDatasource(drizzle(pool))).toMatchObject({ dialect: 'postgres' });
  }
});

it('refuses datasource options that do not exist or have an invalid value', () => {
  const pool = { connect() {}, query() {} } as never;
  for (const options of [{ schemas: 'app' }, null, { schema: 7 }, { schema: '' }, { schema: 'x'.repeat(64) }]) {
    const code =
      options !== null && 'schema' in options && options.schema !== 'x'.repeat(64) ? 'INVALID_NAME' : 'INVALID_OPTION';
    expect(thrown(() => pgDatasource(pool, options as never))).toMatchObject({ code });
  }
});

describeBackends('a transaction that is defined wrongly', (backend) => {
  it('is refused where it is defined', async () => {
    const { datasource } = await openUserData(backend, plainest[backend.name]);
    const define = (...args: unknown[]) => thrown(() => (transaction as (...all: unknown[]) => unknown)(...args));
    const fn = () => {};
    expect(define(undefined, 'x', fn)).toMatchObject({ code: 'INVALID_OPTION', message: /pgDatasource/ });
    expect(define({ transact: fn }, 'x', fn)).toMatchObject({ code: 'INVALID_OPTION' });
    for (const name of ['', undefined, 7, 'DBOS.x', 'a\0b']) {
      expect(define(datasource, name, fn)).toMatchObject({ code: 'INVALID_NAME' });
    }
    expect(define(datasource, 'x', 'fn')).toMatchObject({ code: 'INVALID_OPTION', details: { option: 'fn' } });
    const wrong = [
      { timeout: '1s' },
      { isolation: 'snapshot' },
      { readOnly: 'yes' },
      { retries: -1 },
      { retries: { maximum: 3 } },
      null,
      [],
    ];
    for (const options of wrong) expect(define(datasource, 'x', fn, options)).toMatchObject({ code: 'INVALID_OPTION' });
  });

  it('is refused if it shares its name with another transaction or writes to a stream', async () => {
    const data = await openUserData(backend, plainest[backend.name]);
    const add = (by: number) => transaction(data.datasource, 'add', (tx) => data.add(tx, 'a', by).then(() => by));
    const [one, two] = [add(1), add(2)];
    const progress = stream<string>('progress');
    const chatty = transaction(data.datasource, 'chatty', async (tx) => {
      await data.add(tx, 'a', 10);
      await progress.write('half');
    });
    const clash = workflow('clash', async () => [await one(), await two()]);
    const talk = workflow('talk', async () => chatty());
    await backend.testApp({ workflows: [clash, talk] });
    expect(await failure(clash())).toMatchObject({ code: 'STEP_NAME_CLASH' });
    expect(await failure(talk())).toMatchObject({ code: 'UNSUPPORTED_CALL', message: /transaction/ });
    expect(await counter(data.url, 'a')).toBe(1);
  });
});
