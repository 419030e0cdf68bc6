import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { event, queue, run, sleep, topic, workflow } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { describeBackends } from '../support/backends.js';
import { failure, type RecordingLogger, recordingLogger, tamper } from '../support/faults.js';
import { openPooler, type PoolerOptions } from './pooler.js';

const seed = process.env.HOLDFAST_FAULT_SEED ?? String(Date.now() % 1_000_000);
const kinds = ['tracked', 'left to chance'] as const;

async function pooler(target: string, prepared: PoolerOptions['prepared'], sessions = 4) {
  const opened = await openPooler(target, { random: new SeededRandom(`pooler ${seed}`), prepared, sessions });
  onTestFinished(() => opened.close());
  return opened;
}

async function client(url: string): Promise<pg.Client> {
  const connected = new pg.Client(url);
  connected.on('error', () => {});
  await connected.connect();
  onTestFinished(() => void connected.end().catch(() => {}));
  return connected;
}

describe(`the pooler of these tests, HOLDFAST_FAULT_SEED=${seed}`, () => {
  const pid = async (of: pg.Client) => (await of.query('select pg_backend_pid() as pid')).rows[0].pid as number;

  it('lends a session for one transaction, and perhaps another session for the next', async () => {
    const { url } = await pooler(inject('postgresUrl'), 'tracked');
    const one = await client(url);
    const pids = new Set<number>();
    for (let i = 0; i < 50; i++) pids.add(await pid(one));
    expect(pids.size).toBe(4);
    await one.query('begin');
    const within = new Set<number>();
    for (let i = 0; i < 10; i++) within.add(await pid(one));
    await one.query('commit');
    expect(within.size).toBe(1);
  });

  it('tracks prepared statements, or leaves them to chance', async () => {
    const insert = { name: 'one', text: 'select $1::int as n' };
    const tracking = await client((await pooler(inject('postgresUrl'), 'tracked')).url);
    for (let n = 0; n < 30; n++) expect((await tracking.query({ ...insert, values: [n] })).rows).toEqual([{ n }]);
    const chance = await client((await pooler(inject('postgresUrl'), 'left to chance')).url);
    const tries = Array.from({ length: 30 }, (_, n) => chance.query({ ...insert, values: [n] }));
    const states = (await Promise.allSettled(tries)).flatMap((each) =>
      each.status === 'rejected' ? [each.reason.code] : [],
    );
    expect(new Set(states)).toEqual(new Set(['26000']));
  });

  it('does not reuse a session that a client left in the middle of a transaction', async () => {
    const { url } = await pooler(inject('postgresUrl'), 'tracked', 1);
    const one = await client(url);
    await one.query('begin');
    await one.end();
    const two = await client(url);
    expect((await two.query('select now() = statement_timestamp() as fresh')).rows).toEqual([{ fresh: true }]);
    expect((await failure(two.query('select nothing'))).code).toBe('42703');
    expect((await two.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });
});

describeBackends(
  'behind a pooler in transaction mode',
  (backend) => {
    const letters = topic<number>('letters');
    const progress = event<number>('progress');
    const ran = new Map<string, number>();
    const work = workflow('work', async (id: string) => {
      for (const step of ['one', 'two']) {
        await run(step, () => void ran.set(`${id}/${step}`, (ran.get(`${id}/${step}`) ?? 0) + 1));
      }
      await sleep(10);
      await progress.set(1);
      return (await letters.receive({ timeout: '30s' })) ?? null;
    });

    it.each(kinds)(
      'an app does all its work by polling, and warns once about each missing feature (prepared statements: %s)',
      async (prepared) => {
        const database = await backend.newDatabase();
        const pool = await pooler(database, prepared);
        const logger = recordingLogger();
        const options = { name: 'test', workflows: [work], queues: [queue('jobs', { concurrency: 5 })], logger };
        const [one, two] = await Promise.all(
          [1, 2].map((n) => launchWith({ ...options, database: pool.url, executorId: `e${n}`, version: 'v' }, {})),
        );
        onTestFinished(async () => void (await Promise.all([one?.shutdown(), two?.shutdown()])));
        const ids = Array.from({ length: 20 }, (_, i) => `${prepared}-${i}`);
        const handles = await work.with({ queue: 'jobs', app: one as object }).startAll(
          ids.map((id) => [id]),
          ([id]) => ({ id }),
        );
        for (const id of ids) {
          await progress.get(id, { timeout: '30s', app: two as object });
          await letters.send(id, 7, { app: two as object });
        }
        expect(new Set(await Promise.all(handles.map((handle) => handle.result())))).toEqual(new Set([7]));
        expect([...ran.entries()].filter(([key, times]) => key.startsWith(prepared) && times !== 1)).toEqual([]);
        expect(
          await tamper(database, 'select distinct status, recovery_attempts::int as n from workflow_status'),
        ).toEqual([{ status: 'SUCCESS', n: 1 }]);
        // The pooler did share its sessions.
        expect(pool.maxSessionsOfOneClient).toBe(4);
        expect(pool.lent).toBeGreaterThan(100);
        expectToldOnce(logger, prepared);
      },
    );
  },
  ['postgres'],
);

/** Two apps write to this log. */
function expectToldOnce(logger: RecordingLogger, prepared: PoolerOptions['prepared']): void {
  expect(logger.matching(/LISTEN does not work/)).toHaveLength(2);
  expect(logger.matching(/Prepared statements do not last/)).toHaveLength(prepared === 'tracked' ? 0 : 2);
  expect(logger.lines.filter((line) => !/LISTEN does not work|Prepared statements do not last/.test(line))).toEqual([]);
}
