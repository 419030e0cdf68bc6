import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { context, transaction, workflow } from '../../src/index.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import type { Datasource } from '../../src/storage/caller/datasource.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { claimNothing } from '../support/claims.js';
import { countersTable, watched } from '../support/datasources.js';
import { failure, gate, tamper } from '../support/faults.js';
import { withoutTakeoverNews } from '../support/not-listening.js';
import { counter } from '../support/user-data.js';

describeBackends('a transaction whose executions store its outcome in different places', suite, ['postgres']);

type Kind = 'record' | 'checkpoint';
type Client = pg.PoolClient;

const upsert =
  'insert into public.counters values ($1, 1) on conflict (id) do update set n = counters.n + excluded.n returning n';
const rights = [
  'grant usage on schema dbos to :role',
  'grant select, insert, update on dbos.workflow_status to :role',
  'grant select, insert on dbos.operation_outputs to :role',
];

function suite(backend: Backend): void {
  withoutTakeoverNews();
  /** Creates the database of the app with counters, and a role that may only store records in its own schema. */
  async function place() {
    const database = await backend.newDatabase();
    const role = `h${Math.random().toString(36).slice(2, 10)}`;
    const sql = (text: string) => tamper(database, text.replaceAll(':role', role));
    await sql(`create role ${role}`);
    for (const text of [
      countersTable.replace('exists ', 'exists public.'),
      'grant all on public.counters to :role',
      'create schema own authorization :role',
    ]) {
      await sql(text);
    }
    onTestFinished(async () => {
      // Await this: the database is dropped next, which ends every session that still uses it.
      await sql('drop owned by :role; drop role :role').catch(() => {});
    });
    /** Connects as the role, whose outcomes are records, or as the table owner, whose outcomes are checkpoints. */
    const open = (kind: Kind) => {
      const options = kind === 'record' ? `-c role=${role}` : '';
      const pool = new pg.Pool({ connectionString: database, max: 3, options });
      pool.on('error', () => {});
      onTestFinished(() => pool.end());
      return watched(pgDatasource(pool, { schema: 'own' }));
    };
    const records = async () => {
      const [{ there } = {}] = await sql("select to_regclass('own.transaction_completion') as there");
      return there ? sql('select * from own.transaction_completion') : [];
    };
    return { database, sql, open, records };
  }

  /** Launches two apps, each with its own datasource. When this resolves, the second owns the workflow. */
  async function overtaken(first: Kind, second: Kind, secondDoes: (n: number) => unknown = () => {}) {
    const { database, open, records } = await place();
    const gates = { first: { inside: gate(), goOn: gate() }, second: { inside: gate(), goOn: gate() } };
    const appOf = async (executorId: 'first' | 'second', kind: Kind, clock?: object) => {
      const { datasource, under } = open(kind);
      const { inside, goOn } = gates[executorId];
      let calls = 0;
      const pay = transaction(datasource, 'pay', async (tx: Client) => {
        inside.open();
        await goOn.promise;
        if (executorId === 'second') secondDoes(++calls);
        await tx.query(upsert, ['ada']);
        return executorId;
      });
      const wf = workflow('wf', () => pay().catch((error: Error) => `not paid: ${error.message}`));
      const t = await backend.testApp({
        workflows: [wf],
        database,
        executorId,
        ...(clock && { clock: clock as never }),
      });
      return { t, wf, under };
    };
    const a = await appOf('first', first);
    await a.wf.with({ id: 'x' }).start();
    await gates.first.inside.promise;
    const b = await appOf('second', second, a.t.clock);
    const [recovered] = await b.t.app.recovery.recover(['first']);
    await gates.second.inside.promise;
    const ends = (app: typeof a) => Promise.allSettled(app.under);
    return { ...gates, a, b, recovered, ends, database, records };
  }

  it.each<[Kind, Kind]>([
    ['record', 'checkpoint'],
    ['checkpoint', 'record'],
    ['record', 'record'],
    ['checkpoint', 'checkpoint'],
  ])('takes effect once if the execution that lost the workflow commits last (%s, then %s)', async (first, second) => {
    const o = await overtaken(first, second);
    o.second.goOn.open();
    expect(await o.recovered?.result()).toBe('second');
    o.first.goOn.open();
    await o.ends(o.a);
    expect(await counter(o.database, 'ada')).toBe(1);
    expect(await o.b.t.app.workflows.steps('x')).toMatchObject([{ name: 'pay', output: 'second' }]);
  });

  it.each<[Kind, Kind]>([
    ['record', 'checkpoint'],
    ['checkpoint', 'record'],
    ['record', 'record'],
  ])('takes effect once if the execution that lost the workflow commits first (%s, then %s)', async (first, second) => {
    const o = await overtaken(first, second);
    o.first.goOn.open();
    await o.ends(o.a);
    const paid = await counter(o.database, 'ada');
    // A checkpoint of an execution that lost the workflow is fenced. A record counts.
    expect(paid).toBe(first === 'record' ? 1 : 0);
    o.second.goOn.open();
    const result = first === 'record' ? 'first' : 'second';
    expect(await o.recovered?.result()).toBe(result);
    expect(await counter(o.database, 'ada')).toBe(1);
    expect(await o.b.t.app.workflows.steps('x')).toMatchObject([{ name: 'pay', output: result }]);
  });

  it('takes effect once if both commit at the same moment', async () => {
    const o = await overtaken('record', 'checkpoint');
    o.first.goOn.open();
    o.second.goOn.open();
    const result = await o.recovered?.result();
    await o.ends(o.a);
    expect(await counter(o.database, 'ada')).toBe(1);
    expect(await o.records()).toMatchObject([{ workflow_id: 'x', output: expect.stringContaining(String(result)) }]);
  });

  it('stays failed once the owner reported the failure, even for an execution that would store a record', async () => {
    const o = await overtaken('record', 'checkpoint', () => {
      throw new Error('the provider is down');
    });
    o.second.goOn.open();
    expect(await o.recovered?.result()).toBe('not paid: the provider is down');
    o.first.goOn.open();
    await o.ends(o.a);
    expect(await counter(o.database, 'ada')).toBe(0);
  });

  it('does not start in an execution that lost the workflow before the table of records existed', async () => {
    const { database, open } = await place();
    const [looking, goOn] = [gate(), gate()];
    const called: string[] = [];
    const restricted = open('record');
    let transactions = 0;
    const slow: Datasource<Client> = {
      ...restricted.datasource,
      transact: async (mode, work) => {
        // The second transaction looks for the table. By then the outcome is known to be a record.
        if (++transactions === 2) {
          looking.open();
          await goOn.promise;
        }
        return restricted.datasource.transact(mode, work);
      },
    };
    const define = (datasource: Datasource<Client>) => {
      const pay = transaction(datasource, 'pay', async (tx) => {
        called.push(context().executorId);
        await tx.query(upsert, ['ada']);
        return context().executorId;
      });
      return workflow('wf', () => pay());
    };
    const wf = define(slow);
    const first = await backend.testApp({ workflows: [wf], database, executorId: 'first' });
    await wf.with({ id: 'x' }).start();
    await looking.promise;
    const workflows = [define(open('checkpoint').datasource)];
    const second = await backend.testApp({ workflows, database, clock: first.clock, executorId: 'second' });
    claimNothing(first.app);
    const [recovered] = await second.app.recovery.recover(['first']);
    expect(await recovered?.result()).toBe('second');
    goOn.open();
    // The first execution looks for the table, creates it and looks again. It would start the function right then.
    while (transactions < 4) await first.clock.advance(0);
    await Promise.allSettled(restricted.under);
    await first.clock.advance(0);
    await Promise.allSettled(restricted.under);
    expect([called, await counter(database, 'ada')]).toEqual([['second'], 1]);
  });

  it('chooses the place of its outcome again after its connection broke', async () => {
    const { database, sql, open, records } = await place();
    let breaks = false;
    const pay = transaction(open('record').datasource, 'pay', async (tx: Client) => {
      const broken = breaks;
      breaks = false;
      const [row] = (await tx.query('select pg_backend_pid() as pid')).rows;
      if (broken) await sql(`select pg_terminate_backend(${row.pid})`);
      await tx.query(upsert, ['ada']);
    });
    const wf = workflow('wf', () => pay());
    await backend.testApp({ workflows: [wf], database });
    await wf();
    for (const text of rights) await sql(text);
    await wf();
    expect(await records()).toHaveLength(2);
    breaks = true;
    // All attempts of one transaction store the outcome in the same place.
    await wf();
    expect(await records()).toHaveLength(3);
    await wf();
    expect([(await records()).length, await counter(database, 'ada')]).toEqual([3, 4]);
  });

  it.each(['its function', 'its record'])(
    'continues on a new connection if the old one has become read-only, as %s shows',
    async (where) => {
      const { database } = await place();
      const pool = new pg.Pool({ connectionString: await backend.emptyDatabase(), max: 1 });
      onTestFinished(() => pool.end());
      await pool.query(countersTable);
      let calls = 0;
      const pay = transaction(pgDatasource(pool), 'pay', async (tx, writes: boolean) => {
        calls++;
        return writes ? (await tx.query(upsert, ['ada'])).rows[0].n : 'nothing';
      });
      const wf = workflow('wf', (writes: boolean) => pay(writes));
      await backend.testApp({ workflows: [wf], database });
      expect(await wf(true)).toBe(1);
      await pool.query('set default_transaction_read_only = on');
      const writes = where === 'its function';
      expect([await wf(writes), calls]).toEqual([writes ? 2 : 'nothing', 3]);
    },
  );

  it('fails if it is defined as read-only and writes', async () => {
    const { database, open } = await place();
    const pay = transaction(open('checkpoint').datasource, 'pay', (tx) => tx.query(upsert, ['ada']), {
      readOnly: true,
    });
    const wf = workflow('wf', async () => void (await pay()));
    await backend.testApp({ workflows: [wf], database });
    expect(await failure(wf())).toMatchObject({ code: '25006' });
  });
}
