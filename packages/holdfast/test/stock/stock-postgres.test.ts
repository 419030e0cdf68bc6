import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { queue, workflow } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { testApp } from '../../src/testing/index.js';
import { report } from '../faults/child-process.js';
import { type OwnPostgres, startOwnPostgres } from '../faults/own-postgres.js';
import { openPooler } from '../faults/pooler.js';
import { silent } from '../support/backends.js';
import { forever, gate } from '../support/faults.js';

/**
 * The main jobs on a server with its default settings. A server with LLVM compiles statements that it expects to be
 * expensive (JIT). Then jobs that take milliseconds elsewhere take seconds there, and no other test shows it. To run
 * the other tests on such a server: `npm run test:postgres -- system smoke`.
 */
describe('a Postgres server with default settings', () => {
  let server: OwnPostgres;
  let counts = false;
  beforeAll(async () => {
    server = await startOwnPostgres({ fsync: 'off', shared_preload_libraries: 'pg_stat_statements' });
    counts = await countsCompiled(server.url);
  });
  afterAll(() => server.stop());

  const ways = ['directly', 'through a pooler that forgets settings'];

  async function address(way: string): Promise<string> {
    if (way === 'directly') return server.url;
    const random = new SeededRandom('stock');
    const pooler = await openPooler(server.url, { random, prepared: 'tracked', sessions: 8, forgets: true });
    onTestFinished(() => pooler.close());
    return pooler.url;
  }

  it('is not the server of the other tests', () => {
    expect(server.url).not.toBe(inject('postgresUrl'));
  });

  it.each(ways)('picks up queued work and drains a backlog without JIT compilation, %s', async (way) => {
    const [compiled, database] = [await compiledBy(server.url, counts), await address(way)];
    const jobs = queue('jobs');
    const wf = workflow('wf', async (n: number) => n);
    const app = await launchWith({ ...options, database, workflows: [wf], queues: [jobs] }, {});
    onTestFinished(() => app.shutdown());
    const begunAt = performance.now();
    for (let n = 0; n < 5; n++) expect(await (await wf.with({ queue: jobs, app }).start(n)).result()).toBe(n);
    const pickUpMs = (performance.now() - begunAt) / 5;
    const inputs = Array.from({ length: 2000 }, (_, n) => [n] as [number]);
    const drainedAt = performance.now();
    const handles = await wf.with({ queue: jobs, app }).startAll(inputs);
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(inputs.map(([n]) => n));
    const drainMs = performance.now() - drainedAt;
    report(`${way}: a queued no-op ${pickUpMs.toFixed(1)} ms, 2,000 of them ${Math.round(drainMs)} ms`);
    expect(await compiledBy(server.url, counts)).toEqual(compiled);
  });

  it.each(ways)('takes over the work of a dead process without JIT compilation, %s', async (way) => {
    const [compiled, database] = [await compiledBy(server.url, counts), await address(way)];
    const begun = gate();
    let [runs, dies] = [0, true];
    const wf = workflow('taken over', async (n: number) => {
      if (++runs === 500) begun.open();
      return dies ? forever() : n;
    });
    const common = {
      logger: silent,
      workflows: [wf],
      database,
      version: 'v1',
      clock: 'real',
      executorId: way,
    } as const;
    const dead = await testApp(common);
    const inputs = Array.from({ length: 500 }, (_, n) => n);
    const ids = await Promise.all(inputs.map(async (n) => (await wf.with({ app: dead.app }).start(n)).id));
    await begun.promise;
    await dead.crash();
    dies = false;
    const startedAt = performance.now();
    const next = await testApp(common);
    onTestFinished(() => next.stop());
    expect(await Promise.all(ids.map((id) => next.app.workflows.handle(id).result()))).toEqual(inputs);
    report(`${way}: recovery of 500 ${Math.round(performance.now() - startedAt)} ms`);
    expect(await compiledBy(server.url, counts)).toEqual(compiled);
  });
});

const options = { name: 'stock', version: 'v1', logger: silent };

/** Postgres 15 and newer count JIT compilation per statement. */
async function countsCompiled(url: string): Promise<boolean> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('create extension pg_stat_statements');
  const { rows } = await client.query(
    "select pg_jit_available() and current_setting('jit')::bool as compiles, " +
      "current_setting('server_version_num')::int >= 150000 as counts, version()",
  );
  await client.end();
  const [{ compiles, counts, version }] = rows;
  if (!compiles) report(`${version}: without JIT, so nothing could be compiled`);
  else if (!counts) report(`${version}: does not report what it compiles`);
  return compiles && counts;
}

/** The statements that were compiled so far, in any database of the server. */
async function compiledBy(url: string, counts: boolean): Promise<string[]> {
  if (!counts) return [];
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query('select query from pg_stat_statements where jit_functions > 0 order by query');
  await client.end();
  return rows.map(({ query }) => query as string);
}
