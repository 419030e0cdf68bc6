import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { DatabaseClock } from '../../src/model/clock.js';
import { describeBackends } from '../support/backends.js';
import { elsewhere, fleet, type Member } from '../support/fleet.js';
import { report, requireBuild } from './child-process.js';
import { Ledger } from './ledger.js';
import { TellingProcess } from './reporting-process.js';

/** The shortest allowed timeout. */
const staleTimeout = '3s';
const kills = 5;

type RealMember = Member<DatabaseClock>;

describeBackends('process liveness', (backend) => {
  const { members, spawn, ledger } = stage();
  const observe = (url: string, options: object = {}): Promise<RealMember> =>
    members.join(url, { clock: new DatabaseClock(), ...options });

  it('reports a process dead within a second of kill -9', async () => {
    const url = await backend.newDatabase();
    const observer = await observe(url);
    const tookMs: number[] = [];
    for (let round = 0; round < kills; round++) {
      const child = await spawn({ database: url, executorId: `victim ${round}`, staleTimeout: '30s' });
      await until(() => lives(observer, `victim ${round}`), observer);
      const killedAt = performance.now();
      child.process.kill('SIGKILL');
      await until(() => observer.liveness.deaths().some(({ executorId }) => executorId === `victim ${round}`));
      tookMs.push(performance.now() - killedAt);
    }
    expect(observer.reports()).toBe(kills);
    report(`kill -9 (${backend.name}) was seen after ${tookMs.map(Math.round).join(', ')} ms`);
    expect(tookMs.sort((a, b) => a - b)[Math.floor(kills / 2)]).toBeLessThan(1_000);
  });

  it('lets one of two executors continue a workflow after an event loop block longer than the timeout', async () => {
    const url = await backend.newDatabase();
    const first = await spawn({ database: url, executorId: 'first', staleTimeout });
    const second = await spawn({ database: url, executorId: 'second', staleTimeout });
    first.process.send({ workflowId: 'blocked', blockMs: 6_000 });
    await first.next('blocked');
    second.process.send({ result: 'blocked' });
    const { value } = await second.next('result');
    first.process.send({ result: 'blocked' });
    expect((await first.next('result')).value).toEqual(value);
    const begun = ledger()
      .entries('blocked')
      .filter(({ kind }) => kind === 'start');
    const after = begun.filter(({ stepNumber }) => (stepNumber ?? 0) > 1);
    // One executor owned the workflow after the block, and ran each of these steps once. The other executor ran none.
    expect(after.map(({ stepNumber }) => stepNumber)).toEqual([2, 3, 4]);
    expect(new Set(after.map(({ by }) => by)).size).toBe(1);
    expect(value?.slice(2)).toEqual(after.map(({ by }) => by));
    report(`blocked event loop (${backend.name}): it continued in ${after[0]?.by}, steps begun: ${begun.length}`);
  });

  it('lets the same executor continue its workflow after a block shorter than the timeout', async () => {
    const url = await backend.newDatabase();
    const first = await spawn({ database: url, executorId: 'first', staleTimeout: '30s' });
    await spawn({ database: url, executorId: 'second', staleTimeout: '30s' });
    first.process.send({ workflowId: 'brief', blockMs: 2_500 });
    await first.next('blocked');
    first.process.send({ result: 'brief' });
    expect((await first.next('result')).value).toEqual(Array(5).fill('first'));
    expect(
      ledger()
        .entries('brief')
        .filter(({ kind }) => kind === 'start'),
    ).toHaveLength(5);
  });
});

describeBackends(
  'process liveness on a server',
  (backend) => {
    const { members, spawn } = stage();

    it('reports a process dead within two seconds of kill -9 on another host, from its session lock', async () => {
      const url = await backend.newDatabase();
      const time = skippingTime();
      const observer = await members.join(url, {
        clock: new DatabaseClock(),
        process: elsewhere,
        isGone: () => false,
        ...time.options,
      });
      const child = await spawn({ database: url, executorId: 'victim', staleTimeout: '30s' });
      await until(() => lives(observer, 'victim', (record) => record.present === true));
      time.skip(20_000);
      const killedAt = performance.now();
      child.process.kill('SIGKILL');
      await until(() => observer.liveness.deaths().length > 0);
      const tookMs = performance.now() - killedAt;
      report(`kill -9 on another host was seen after ${Math.round(tookMs)} ms`);
      expect(observer.liveness.deaths()).toMatchObject([{ why: expect.stringMatching(/session/) }]);
      // The observer noticed the lost session, and did not wait 30 seconds for a heartbeat.
      expect(tookMs).toBeLessThan(10_000);
    });

    it('does not doubt a process whose listening session is ended, however often', async () => {
      const url = await backend.newDatabase();
      const time = skippingTime();
      const clock = new DatabaseClock();
      const observer = await members.join(url, { clock, ...time.options });
      const peer = await members.join(url, { clock, executorId: 'peer', process: elsewhere });
      const present = () => lives(observer, 'peer', (record) => record.present === true);
      await until(present);
      time.skip(20_000);
      for (let round = 0; round < 5; round++) {
        const killed = await endSessionOf(url, peer);
        expect(killed).toBe(1);
        // The observer polls all the time: it sees the lock go, and sees it come back within the grace period.
        await until(() => !present(), observer);
        await until(present, observer);
      }
      expect([observer.liveness.deaths(), observer.reports()]).toEqual([[], 0]);
    });

    it('doubts no process when the server restarts or refuses connections for a while', async () => {
      const server = await ownServer();
      try {
        const time = skippingTime();
        const clock = new DatabaseClock();
        const all: RealMember[] = [];
        for (const name of ['a', 'b', 'c', 'd']) {
          const process = { ...elsewhere, host: name };
          all.push(await members.join(server.url, { clock, executorId: name, process, ...time.options }));
        }
        const isWell = (member: RealMember): boolean => {
          const seen = member.liveness.executors();
          return seen.length === all.length && seen.every(({ record }) => record.present === true);
        };
        await until(() => all.every(isWell));
        time.skip(20_000);
        for (const fault of [crashServer, shutOut]) {
          await fault(server.url);
          // Long enough for polls that find no lock at all, and for sessions to come back.
          await delay(1_500);
          await until(() => all.every(isWell));
          time.skip(20_000);
          // The sessions are now old enough that a missing lock would count, so no lock may be missing.
          for (let looks = 0; looks < 3; looks++) for (const member of all) await member.liveness.pollNow();
        }
        expect(all.map((member) => member.reports())).toEqual([0, 0, 0, 0]);
        await until(() => all.every((member) => member.liveness.confirmed));
        await members.end();
      } finally {
        await server.stop();
      }
    });
  },
  ['postgres'],
);

function lives(
  observer: RealMember,
  executorId: string,
  how: (record: ReturnType<RealMember['liveness']['executors']>[number]['record']) => boolean = () => true,
): boolean {
  const found = observer.liveness.executors().find(({ record }) => record.executorId === executorId);
  return found?.state === 'alive' && how(found.record);
}

/** Waits until the condition holds. If an observer is given, it polls at once instead of on its schedule. */
async function until(holds: () => boolean, observer?: RealMember): Promise<void> {
  while (!holds()) {
    await delay(5);
    await observer?.liveness.pollNow();
  }
}

/** A server that a test may crash. The other tests share the server of the run. */
async function ownServer(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const script = new URL('../../../../test-support/postgres-server.ts', import.meta.url).href;
  const { startPostgres } = await import(script);
  return startPostgres(['-c', 'fsync=off']);
}

/** A monotonic clock that can skip ahead, so that a test need not wait until its own session is old enough. */
function skippingTime() {
  let skipped = 0;
  return {
    skip: (ms: number) => {
      skipped += ms;
    },
    options: { monotonic: () => performance.now() + skipped },
  };
}

async function withAdmin<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => {});
  }
}

function endSessionOf(url: string, { incarnation }: RealMember): Promise<number> {
  return withAdmin(url, async (client) => {
    const { rows } = await client.query(
      `select pg_terminate_backend(l.pid) from dbos.executors e
         join pg_locks l on l.locktype = 'advisory' and l.objsubid = 2 and l.objid::text = e.lock_key
        where e.incarnation = $1`,
      [incarnation],
    );
    return rows.length;
  });
}

/** Kills one session, which makes the server end all others and restart. */
async function crashServer(url: string): Promise<void> {
  await withAdmin(url, async (client) => {
    const { rows } = await client.query('select pg_backend_pid() as pid');
    process.kill(rows[0].pid, 'SIGKILL');
    await client.query('select 1').catch(() => {});
  });
}

/** Long enough for reconnects to become rare: then polls succeed for a while before any lock is back. */
async function shutOut(url: string): Promise<void> {
  const elsewhereOnIt = new URL(url);
  elsewhereOnIt.pathname = '/template1';
  await withAdmin(elsewhereOnIt.href, async (client) => {
    await client.query('alter database postgres allow_connections false');
    await client.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'postgres'");
    await delay(4_000);
    await client.query('alter database postgres allow_connections true');
  });
}

function stage() {
  const members = fleet();
  const children: TellingProcess[] = [];
  let folder = '';
  let ledger: Ledger;
  beforeAll(async () => {
    await requireBuild();
    folder = mkdtempSync(join(tmpdir(), 'holdfast-liveness-'));
    ledger = new Ledger(join(folder, 'ledger.sqlite'));
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await child.kill();
  });
  afterAll(() => {
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  return {
    members,
    ledger: () => ledger,
    spawn: async (options: { database: string; executorId: string; staleTimeout: string }): Promise<TellingProcess> => {
      const child = await TellingProcess.start('liveness-worker.mjs', { ...options, ledgerPath: ledger.path });
      children.push(child);
      return child;
    },
  };
}
