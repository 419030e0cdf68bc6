import { sql as drizzleSql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { context, run, transaction, workflow } from '../../src/index.js';
import { drizzleDatasource } from '../../src/storage/caller/adapters/drizzle.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { openWire } from '../storage/wire.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { claimNothing } from '../support/claims.js';
import { countersTable, libraries, type Opened, plainest } from '../support/datasources.js';
import { failure, gate, recordingLogger, tamper } from '../support/faults.js';
import { withoutTakeoverNews } from '../support/not-listening.js';
import { counter, openUserData, openUserDataIn, records } from '../support/user-data.js';

describeBackends('a transaction on Postgres', suite, ['postgres']);

const drizzleUpsert = drizzleSql`insert into counters (id, n) values ('a', 1) on conflict (id) do update set n = counters.n + 1`;
const completionTable =
  'create table transaction_completion (workflow_id text not null, function_num int not null, output text, error text, ' +
  'created_at bigint not null, started_at bigint, primary key (workflow_id, function_num))';

function suite(backend: Backend): void {
  withoutTakeoverNews();
  const library = plainest.postgres;

  it.each(['lock_timeout', 'statement_timeout'])(
    'is retried if a statement of Holdfast in it waits for a lock and runs into the %s of the pool',
    async (setting) => {
      const database = await backend.newDatabase();
      const pool = new pg.Pool({ connectionString: database, options: `-c ${setting}=200` });
      const holder = new pg.Client(database);
      await holder.connect();
      onTestFinished(async () => void (await Promise.all([pool.end(), holder.end()])));
      await holder.query('create table public.payments (id text)');
      let calls = 0;
      const pay = transaction(pgDatasource(pool), 'pay', async (tx) => {
        if (++calls === 1) await holder.query('begin; select 1 from dbos.workflow_status for update');
        else await holder.query('commit');
        await tx.query("insert into public.payments values ('a')");
        return 'paid';
      });
      const wf = workflow('wf', async () => pay());
      await backend.testApp({ database, workflows: [wf] });
      expect(await wf()).toBe('paid');
      expect(calls).toBe(2);
      expect((await holder.query('select id from public.payments')).rows).toEqual([{ id: 'a' }]);
    },
  );

  it('is rolled back in the database of the app if another executor took over the workflow meanwhile', async () => {
    const database = await backend.newDatabase();
    const data = await openUserDataIn(database, library);
    const [inside, goOn] = [gate<AbortSignal>(), gate()];
    const caught: string[] = [];
    const pay = transaction(data.datasource, 'pay', async (tx) => {
      const { executorId, signal } = context();
      await data.add(tx, `by ${executorId}`, 1);
      if (executorId === 'first') inside.open(signal);
      if (executorId === 'first') await goOn.promise;
      return executorId;
    });
    const wf = workflow('wf', () =>
      pay().catch((error: Error) => {
        caught.push(error.message);
        throw error;
      }),
    );
    const first = await backend.testApp({ workflows: [wf], database, executorId: 'first' });
    await wf.with({ id: 'x' }).start();
    const signal = await inside.promise;
    const second = await backend.testApp({ workflows: [wf], database, clock: first.clock, executorId: 'second' });
    claimNothing(first.app);
    const [recovered] = await second.app.recovery.recover(['first']);
    expect(await recovered?.result()).toBe('second');
    const parked = new Promise((resolve) => signal.addEventListener('abort', resolve));
    goOn.open();
    await parked;
    await first.clock.advance(0);
    expect([await counter(database, 'by first'), await counter(database, 'by second')]).toEqual([0, 1]);
    expect(caught).toEqual([]);
    expect(await second.app.workflows.steps('x')).toMatchObject([{ name: 'pay', output: 'second' }]);
  });

  describe.each(['a database of its own', 'the database of the app'])(
    'whose connection breaks at its commit in %s',
    (place) => {
      it.each(['cut-before', 'cut-after'] as const)(
        'takes effect once, and the workflow continues (%s)',
        async (kind) => {
          const database = await backend.newDatabase();
          const wire = await openWire(place === 'the database of the app' ? database : await backend.emptyDatabase());
          const data = await openUserDataIn(wire.url, library);
          let calls = 0;
          const pay = transaction(data.datasource, 'pay', async (tx) => {
            // The setup is done: the next commit is the commit of this transaction.
            if (calls++ === 0) armed = wire.inject({ statement: 'commit', kind });
            await data.add(tx, 'a', 1);
            return calls;
          });
          let armed: Promise<void> | undefined;
          const wf = workflow('wf', async () => [await pay(), await run('after', () => 'after')]);
          const test = await backend.testApp({ database, workflows: [wf] });
          const result = await wf.with({ id: 'x' })();
          await armed;
          const expected = kind === 'cut-after' ? 1 : 2;
          expect(result).toEqual([expected, 'after']);
          expect(calls).toBe(expected);
          expect(await counter(wire.url, 'a')).toBe(1);
          const steps = await test.app.workflows.steps('x');
          expect(steps).toMatchObject([{ output: expected }, { output: 'after' }]);
        },
      );
    },
  );

  it('takes effect once if its first commit arrives only after the retry looked for its record', async () => {
    const url = await backend.emptyDatabase();
    const wire = await openWire(url);
    const data = await openUserDataIn(wire.url, library);
    await createUnique(url);
    const held = new pg.Client(url);
    await held.connect();
    let calls = 0;
    const insert = transaction(data.datasource, 'insert', async (tx) => {
      const attempt = ++calls;
      // In the second call another session, like a first attempt that arrives late, commits the same work and record.
      if (attempt === 2) await commitLate(held);
      await (tx as pg.PoolClient).query("insert into unique_things values ('a')");
      if (attempt === 1) throw Object.assign(new Error('lost'), { code: '08006' });
      return 'now';
    });
    const wf = workflow('wf', async () => insert());
    const test = await backend.testApp({ workflows: [wf] });
    const commitLate = async (client: pg.Client): Promise<void> => {
      await client.query('begin');
      await client.query("insert into public.unique_things values ('a')");
      const text = '{"json":"before","__dbos_serializer":"superjson"}';
      const row = ['x', 0, text, test.clock.now(), test.clock.now()];
      await client.query('insert into dbos.transaction_completion values ($1, $2, $3, null, $4, $5)', row);
      await client.query('commit');
    };
    expect(await wf.with({ id: 'x' })()).toBe('before');
    expect(calls).toBe(2);
    await held.end();
  });

  it('fails if one of its statements failed, even if its function caught the error', async () => {
    const data = await openUserData(backend, library);
    const careless = transaction(data.datasource, 'careless', async (tx) => {
      await data.add(tx, 'a', 1);
      await (tx as pg.PoolClient).query('select 1 / 0').catch(() => {});
    });
    const wf = workflow('wf', async () => careless());
    await backend.testApp({ workflows: [wf] });
    const refused = { code: 'UNSUPPORTED_CALL', message: /one of its statements failed.*or caught its error/ };
    expect(await failure(wf())).toMatchObject(refused);
    expect(await failure(careless())).toMatchObject({ ...refused, cause: { code: '25P02' } });
    expect(await counter(data.url, 'a')).toBe(0);
  });

  it('creates its table once when 20 datasources need it at the same moment', async () => {
    const url = await backend.emptyDatabase();
    await openUserDataIn(url, library);
    const mixed = Array.from({ length: 20 }, (_, i) => libraries.filter((each) => each.dialect === 'postgres')[i % 6]);
    const opened = mixed.map((each) => each?.open(url, { schema: 'my "records"' }) as Opened);
    const workflows = opened.map((data, i) => {
      const add = transaction(data.datasource, `add ${i}`, (tx) => data.add(tx, 'a', 1).then(() => i));
      return workflow(`wf ${i}`, async () => add());
    });
    await backend.testApp({ workflows });
    const results = await Promise.all(workflows.map((each) => each()));
    expect(results).toEqual(opened.map((_, i) => i));
    expect(await counter(url, 'a')).toBe(20);
    for (const data of opened) await data.close();
  });

  describe('for a role that may create nothing', () => {
    /** Creates a role with rights on the counters, and returns the URL with which the role connects. */
    async function restricted(url: string, setUp: readonly string[]): Promise<string> {
      const admin = new pg.Client(url);
      await admin.connect();
      const role = `r${Math.random().toString(36).slice(2, 10)}`;
      await admin.query(`create role ${role} login password 'secret'`);
      for (const sql of [countersTable, `grant all on counters to ${role}`, ...setUp]) {
        await admin.query(sql.replaceAll(':role', role));
      }
      await admin.end();
      return Object.assign(new URL(url), { username: role, password: 'secret' }).toString();
    }

    async function payOnce(url: string): Promise<unknown> {
      const data = library.open(url);
      const pay = transaction(data.datasource, 'pay', (tx) => data.add(tx, 'a', 1).then(() => 'paid'));
      const wf = workflow('wf', async () => pay());
      await backend.testApp({ workflows: [wf] });
      try {
        return await wf();
      } finally {
        await data.close();
      }
    }

    const dbosTable = [
      'create schema dbos',
      `create table dbos.transaction_completion (workflow_id text not null, function_num int4 not null, output text,
       error text, created_at bigint not null default (extract(epoch from now()) * 1000)::bigint,
       primary key (workflow_id, function_num))`,
      'grant usage on schema dbos to :role',
      'grant select, insert, update on dbos.transaction_completion to :role',
    ];

    it('works with an existing table, even one that DBOS created', async () => {
      const url = await backend.emptyDatabase();
      expect(await payOnce(await restricted(url, dbosTable))).toBe('paid');
      expect(await payOnce(await restricted(await backend.emptyDatabase(), [...dbosTable, addColumn]))).toBe('paid');
      expect(await records(url)).toHaveLength(1);
    });
    const addColumn = 'alter table dbos.transaction_completion add column started_at bigint';

    it('names the missing table', async () => {
      const error = await failure(payOnce(await restricted(await backend.emptyDatabase(), [])));
      expect(error).toMatchObject({ code: 'MIGRATION_REQUIRED', message: /transaction_completion/ });
    });

    it('stores a record in the database of the app if the role may only read the tables there', async () => {
      const database = await backend.newDatabase();
      const looking = ['grant usage on schema dbos to :role', 'grant select on all tables in schema dbos to :role'];
      const own = ['create schema records', 'grant all on schema records to :role', ...looking];
      const url = await restricted(database, own);
      const data = library.open(url, { schema: 'records' });
      const pay = transaction(data.datasource, 'pay', (tx) => data.add(tx, 'a', 1).then(() => 'paid'));
      const wf = workflow('wf', async () => pay());
      await backend.testApp({ database, workflows: [wf] });
      expect(await wf()).toBe('paid');
      expect(await counter(database, 'a')).toBe(1);
      await data.close();
    });
  });

  it('fails alone if its connection breaks, through drizzle: the process and its pool continue', async () => {
    const url = await backend.emptyDatabase();
    const data = await openUserDataIn(url, library);
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    const pay = transaction(drizzleDatasource(drizzle(pool)), 'pay', async (tx, breaks: boolean) => {
      await tx.execute(drizzleUpsert);
      if (breaks) await tx.execute(drizzleSql`select pg_terminate_backend(pg_backend_pid())`);
      return 'paid';
    });
    const wf = workflow('wf', async (breaks: boolean) => pay(breaks));
    await backend.testApp({ workflows: [wf] });
    expect((await failure(wf(true))).message).toMatch(/Failed query/);
    expect([await wf(false), await counter(data.url, 'a')]).toEqual(['paid', 1]);
    // Our listeners are removed when the client returns to the pool, where the pool listens again.
    const client = await pool.connect();
    const whileOut = client.listenerCount('error');
    client.release();
    expect([whileOut, client.listenerCount('error')]).toEqual([1, 1]);
    await pool.end();
  });

  it('finds the record of another process, even if the table was missing at the first check', async () => {
    const database = await backend.newDatabase();
    const data = await openUserDataIn(database, library);
    const hold = gate();
    const pay = transaction(data.datasource, 'pay', (tx) => data.add(tx, 'a', 1).then(() => 'paid'));
    const wf = workflow('wf', async () => [await run('hold', () => hold.promise), await pay()][1]);
    const probe = workflow('probe', () => pay());
    const crashed = await backend.testApp({ workflows: [wf, probe], database, executorId: 'first' });
    await wf.with({ id: 'x' }).start();
    await crashed.clock.advance(0);
    await crashed.crash();
    const second = await backend.testApp({ workflows: [wf, probe], database, executorId: 'second' });
    // From here on the process knows where records go.
    expect(await probe()).toBe('paid');
    expect(await records(database)).toBeNull();
    // A process that may not write our tables does the same.
    await tamper(database, completionTable);
    await tamper(
      database,
      "insert into transaction_completion select 'x', 1, '\"elsewhere\"', null, created_at, created_at from workflow_status where workflow_uuid = 'x'",
    );
    await second.app.recovery.recover(['first']);
    hold.open();
    expect(await second.clock.runUntil(second.app.workflows.handle('x').result())).toBe('elsewhere');
    expect(await counter(database, 'a')).toBe(1);
  });

  it('waits for a database that is temporarily unreachable', async () => {
    const url = await backend.emptyDatabase();
    await openUserDataIn(url, library);
    const nowhere = Object.assign(new URL(url), { port: '1' }).toString();
    const away = library.open(nowhere);
    const there = library.open(url);
    const logger = recordingLogger();
    let isBack = false;
    // A datasource of the user needs only these few members.
    const datasource = {
      ...there.datasource,
      transact: ((mode, work) =>
        (isBack ? there : away).datasource.transact(mode, work)) as typeof there.datasource.transact,
    };
    const pay = transaction(datasource, 'pay', (tx) => there.add(tx, 'a', 1).then(() => 'paid'));
    const wf = workflow('wf', async () => pay());
    const test = await backend.testApp({ workflows: [wf], logger });
    const handle = await wf.start();
    while (logger.matching(/Transaction "pay".* is tried again.*ECONNREFUSED/).length === 0)
      await test.clock.advance(0);
    isBack = true;
    expect(await handle.result()).toBe('paid');
    for (const data of [away, there]) await data.close();
  });
}

async function createUnique(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('create table public.unique_things (id text primary key)');
  await client.end();
}
