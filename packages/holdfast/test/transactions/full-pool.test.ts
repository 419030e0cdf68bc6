import { drizzle } from 'drizzle-orm/node-postgres';
import createKnex from 'knex';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { sqliteDrivers } from '../../../../test-support/sqlite.mjs';
import { type Datasource, transaction, workflow } from '../../src/index.js';
import { drizzleDatasource } from '../../src/storage/caller/adapters/drizzle.js';
import { knexDatasource } from '../../src/storage/caller/adapters/knex.js';
import { kyselyDatasource } from '../../src/storage/caller/adapters/kysely.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { failure, gate } from '../support/faults.js';

interface OneConnection {
  readonly datasource: Datasource<unknown>;
  /** Takes the only connection. Returns a function that gives it back. */
  hold(): Promise<() => unknown>;
  close(): Promise<unknown>;
}

const waitMs = 50;

/** On SQLite only knex has a pool. It uses better-sqlite3, which does not load on every Node version. */
const names: readonly Backend['name'][] = sqliteDrivers.includes('better-sqlite3')
  ? ['sqlite', 'postgres']
  : ['postgres'];

/** Pools with one connection and a short wait for it. */
const libraries: Readonly<Record<'postgres' | 'sqlite', Record<string, (url: string) => OneConnection>>> = {
  postgres: {
    pg: (url) => overPool(url, (pool) => pgDatasource(pool)),
    kysely: (url) =>
      overPool(url, (pool) => kyselyDatasource(new Kysely<object>({ dialect: new PostgresDialect({ pool }) }))),
    drizzle: (url) => overPool(url, (pool) => drizzleDatasource(drizzle(pool))),
    knex: (url) => overKnex({ client: 'pg', connection: url }),
  },
  sqlite: {
    knex: (url) =>
      overKnex({
        client: 'better-sqlite3',
        connection: { filename: url.slice('sqlite:'.length) },
        useNullAsDefault: true,
      }),
  },
};

function overPool(url: string, make: (pool: pg.Pool) => object): OneConnection {
  const pool = new pg.Pool({ connectionString: url, max: 1, connectionTimeoutMillis: waitMs });
  const hold = async () => {
    const client = await untilConnected(() => pool.connect());
    return () => client.release();
  };
  return { datasource: make(pool) as Datasource<unknown>, hold, close: async () => pool.ending || pool.end() };
}

function overKnex(config: createKnex.Knex.Config): OneConnection {
  const knex = createKnex({ ...config, pool: { min: 0, max: 1 }, acquireConnectionTimeout: waitMs });
  const hold = async () => {
    const connection = await untilConnected(() => knex.client.acquireConnection());
    return () => knex.client.releaseConnection(connection);
  };
  return { datasource: knexDatasource(knex) as Datasource<unknown>, hold, close: () => knex.destroy() };
}

/** On a busy machine, opening a connection can take longer than these pools wait. */
async function untilConnected<T>(connect: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await connect();
    } catch (error) {
      if (attempt === 50) throw error;
    }
  }
}

describeBackends('a transaction whose pool has no connection free', suite, names);

function suite(backend: Backend): void {
  async function started(library: string) {
    const opened = libraries[backend.name][library]?.(await backend.emptyDatabase());
    if (!opened) throw new Error(library);
    onTestFinished(() => opened.close().then(() => {}));
    let calls = 0;
    const pay = transaction(opened.datasource, 'pay', async () => ++calls);
    const wf = workflow('wf', async () => [await pay(), await pay()]);
    const putOff = gate<string>();
    const warn = (message: string): void => {
      if (message.includes('is tried again')) putOff.open(message);
    };
    await backend.testApp({ workflows: [wf], logger: { ...silent, warn } });
    return { ...opened, wf, putOff: putOff.promise };
  }

  it.each(Object.keys(libraries[backend.name]))('is retried until one is free, through %s', async (library) => {
    const { hold, wf, putOff } = await started(library);
    const giveBack = await hold();
    let held = true;
    const release = (): unknown => {
      const isHeld = held;
      held = false;
      return isHeld && giveBack();
    };
    onTestFinished(() => void release());
    const handle = await wf.start();
    expect(await Promise.race([putOff, handle.result()])).toMatch(/Transaction "pay".*is tried again.*connection/i);
    await release();
    expect(await handle.result()).toEqual([1, 2]);
  });

  it.each(Object.keys(libraries[backend.name]))('fails if its pool is closed, through %s', async (library) => {
    const { close, wf } = await started(library);
    await close();
    expect(await failure(wf())).toBeInstanceOf(Error);
  });
}
