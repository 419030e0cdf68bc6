import createKnex, { type Knex } from 'knex';
import { expect, it, onTestFinished } from 'vitest';
import { openSqlite, sqliteDrivers, sqliteFile, type TestSqlite } from '../../../../test-support/sqlite.mjs';
import { connect, transaction, workflow } from '../../src/index.js';
import { knexDatasource } from '../../src/storage/caller/adapters/knex.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { countersTable, type Library, libraries, plainest } from '../support/datasources.js';
import { failure, tamper } from '../support/faults.js';
import { counter, openUserData } from '../support/user-data.js';

describeBackends('a transaction on SQLite', suite, ['sqlite']);

/** knex opens files with better-sqlite3. */
const onBetterSqlite3 = it.skipIf(!sqliteDrivers.includes('better-sqlite3'));

const upsert = "insert into counters values ('a', 1) on conflict (id) do update set n = counters.n + 1";

function suite(backend: Backend): void {
  it.each(libraries.filter(({ dialect }) => dialect === 'sqlite'))(
    'is rolled back if its commit fails, and the next transaction commits, through $name',
    async (library) => {
      const data = await openUserData(backend, library);
      await tamper(data.url, 'create table accounts (id text primary key)');
      const reference = 'references accounts (id) deferrable initially deferred';
      await tamper(data.url, `create table payments (account text ${reference})`);
      const bad = transaction(data.datasource, 'bad', async (tx) => {
        await data.add(tx, 'a', 1);
        await data.datasource.query(tx, "insert into payments values ('nobody')", []);
      });
      const good = transaction(data.datasource, 'good', (tx) => data.add(tx, 'b', 1).then(() => 'good'));
      const wf = workflow('wf', async () => [await bad().catch((error) => error.code), await good()]);
      await backend.testApp({ workflows: [wf] });
      const code = library.driver === 'node:sqlite' ? 'ERR_SQLITE_ERROR' : 'SQLITE_CONSTRAINT_FOREIGNKEY';
      expect(await wf()).toEqual([code, 'good']);
      expect([await counter(data.url, 'a'), await counter(data.url, 'b')]).toEqual([0, 1]);
    },
  );

  it.skipIf(sqliteDrivers.length < 2)('on the file of the app is refused through another copy of SQLite', async () => {
    const database = await backend.newDatabase();
    await tamper(database, countersTable);
    const library = libraries.find((each) => each.driver === 'better-sqlite3') as Library;
    const data = library.open(database);
    onTestFinished(async () => void (await data.close()));
    const add = transaction(data.datasource, 'add', (tx) => data.add(tx, 'a', 1));
    const wf = workflow('wf', async () => add().catch((error) => error.code));
    const { app } = await backend.testApp({ workflows: [wf], database });
    expect(await wf()).toBe('SQLITE_COPIES');
    expect(await counter(database, 'a')).toBe(0);
    const client = await connect({ name: app.name, database, logger: silent });
    onTestFinished(() => client.close());
    const started = data.datasource.transact({}, (tx) => client.startIn(tx, 'wf', {}));
    expect(await failure(started)).toMatchObject({ code: 'SQLITE_COPIES' });
  });

  onBetterSqlite3('is retried if another connection reads the file at its commit, through knex', async () => {
    const { url, knex } = await openKnex(backend);
    const reader = openSqlite(url);
    onTestFinished(() => void reader.close());
    let calls = 0;
    const add = transaction(knexDatasource(knex), 'add', async (tx) => {
      // Without a write-ahead log, a commit fails while another connection reads.
      if (calls++ === 0) {
        reader.exec('begin');
        reader.prepare('select * from counters').all();
      } else if (reader.inTransaction) reader.exec('commit');
      await tx.raw(upsert);
      return 'added';
    });
    const wf = workflow('wf', async () => add());
    await backend.testApp({ workflows: [wf], clock: 'real' });
    expect(await wf()).toBe('added');
    expect([calls, await counter(url, 'a')]).toEqual([2, 1]);
  });

  it('commits once a concurrent reader has finished, and the event loop continues meanwhile', async () => {
    const data = await openUserData(backend, plainest.sqlite);
    const reader = openSqlite(data.url);
    onTestFinished(() => void reader.close());
    let calls = 0;
    const add = transaction(data.datasource, 'add', async (tx) => {
      calls++;
      await data.add(tx, 'a', 1);
      reader.exec('begin');
      reader.prepare('select * from counters').all();
      setTimeout(() => reader.exec('commit'), 30);
    });
    const wf = workflow('wf', async () => add());
    await backend.testApp({ workflows: [wf] });
    await wf();
    expect([calls, await counter(data.url, 'a')]).toEqual([1, 1]);
  });

  onBetterSqlite3.each([1, 2])(
    'leaves its connections writable if it is read-only and its function ends it (%i in the pool)',
    async (max) => {
      const { url, knex } = await openKnex(backend, { max });
      const end = (tx: Knex.Transaction) => tx.rollback();
      const look = transaction(knexDatasource(knex), 'look', end, { readOnly: true });
      const fail = transaction(knexDatasource(knex), 'fail', () => Promise.reject(new Error('none')), {
        readOnly: true,
      });
      const add = transaction(knexDatasource(knex), 'add', async (tx) => void (await tx.raw(upsert)));
      const wf = workflow('wf', async () => {
        const refused = await look().catch((error) => error.code);
        const failed = await fail().catch((error) => error.message);
        await add();
        return [refused, failed];
      });
      await backend.testApp({ workflows: [wf] });
      expect(await wf()).toEqual(['UNSUPPORTED_CALL', 'none']);
      await add();
      expect(await counter(url, 'a')).toBe(2);
      // The same holds outside a workflow, and all connections return to the pool.
      await look().catch(() => {});
      for (let i = 0; i < max; i++) await knex.raw(upsert);
      expect(knex.client.pool.numUsed()).toBe(0);
    },
  );
}

/** Creates a file with a table of counters, and a knex instance on it that does not wait for locks. */
async function openKnex(backend: Backend, pool: Knex.PoolConfig = {}): Promise<{ url: string; knex: Knex }> {
  // Locks work between processes, or between connections of one copy of SQLite.
  const url = `sqlite+better-sqlite3:${sqliteFile(await backend.emptyDatabase())}`;
  await tamper(url, countersTable);
  const afterCreate = (db: TestSqlite, done: (error: null, db: TestSqlite) => void) => {
    db.pragma('busy_timeout = 0');
    done(null, db);
  };
  const knex = createKnex({
    client: 'better-sqlite3',
    connection: { filename: sqliteFile(url) },
    useNullAsDefault: true,
    pool: { ...pool, afterCreate },
  });
  onTestFinished(() => knex.destroy());
  return { url, knex };
}
