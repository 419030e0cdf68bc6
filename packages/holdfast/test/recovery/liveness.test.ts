import { hostname } from 'node:os';
import { expect, it } from 'vitest';
import type { ExecutorRecord } from '../../src/storage/contract/executors.js';
import { VirtualClock } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { elsewhere, fleet, type Member, pass } from '../support/fleet.js';

const ttlMs = 30_000;

describeBackends('executors that watch each other', (backend) => {
  const members = fleet();
  const standingOf = (observer: Member, peer: Member): string | undefined =>
    observer.liveness.executors().find(({ record }) => record.incarnation === peer.incarnation)?.state;
  const pair = async (of: Partial<typeof elsewhere> = elsewhere) => {
    const url = await backend.newDatabase();
    const observer = await members.join(url);
    const process = of as typeof elsewhere;
    const peer = await members.join(url, { clock: observer.clock, executorId: 'peer', process });
    await pass(observer.clock, 5_000);
    expect(standingOf(observer, peer)).toBe('alive');
    return { url, observer, peer, clock: observer.clock };
  };

  it('have a row from launch to shutdown, with everything that the others need to know', async () => {
    const database = await backend.newDatabase();
    const app = await backend.testApp({ database, executorId: 'two', version: 'v7' });
    const rows = () => tamper(database, 'select * from executors');
    const [row] = await rows();
    expect(row).toMatchObject({ executor_id: 'two', application_name: 'test', application_version: 'v7' });
    expect(row).toMatchObject({ host: hostname() });
    expect([Number(row?.pid), Number(row?.ttl_ms)]).toEqual([process.pid, ttlMs]);
    await pass(app.clock, 11_000);
    const [later] = await rows();
    expect(Number(later?.beats)).toBe(Number(row?.beats) + 2);
    await app.app.shutdown();
    expect(await rows()).toEqual([]);
  });

  it('know all live executors, including themselves', async () => {
    const { observer, peer, clock } = await pair();
    await pass(clock, 120_000);
    expect(observer.liveness.executors().map(({ state }) => state)).toEqual(['alive', 'alive']);
    expect([standingOf(observer, peer), standingOf(peer, observer)]).toEqual(['alive', 'alive']);
    expect([observer.liveness.deaths(), observer.reports(), peer.reports()]).toEqual([[], 0, 0]);
  });

  it('consider an executor dead once it was silent for its time to live, and not before', async () => {
    const { observer, peer, clock } = await pair();
    await peer.liveness.abandon();
    await pass(clock, ttlMs - 5_500);
    expect(standingOf(observer, peer)).toBe('suspected');
    expect(observer.reports()).toBe(0);
    await pass(clock, 11_500);
    expect(standingOf(observer, peer)).toBe('dead');
    const [death, ...more] = observer.liveness.deaths();
    expect(more).toEqual([]);
    expect(death).toMatchObject({
      executorId: 'peer',
      incarnation: peer.incarnation,
      why: expect.stringMatching(/silent/),
    });
    expect(death?.lastHeartbeatAt).toBeGreaterThan(0);
    expect(death?.declaredDeadAt).toBeLessThanOrEqual(clock.now());
    expect([observer.liveness.isDead(peer.incarnation), observer.liveness.isDead(observer.incarnation)]).toEqual([
      true,
      false,
    ]);
    await pass(clock, 60_000);
    expect(observer.reports()).toBe(1);
  });

  it('apply the time to live that each executor has set for itself', async () => {
    const url = await backend.newDatabase();
    const observer = await members.join(url);
    const brief = await members.join(url, { clock: observer.clock, process: elsewhere, ttlMs: 3_000 });
    const usual = await members.join(url, { clock: observer.clock, process: elsewhere });
    await pass(observer.clock, 6_000);
    for (const each of [brief, usual]) await each.liveness.abandon();
    await pass(observer.clock, 6_000);
    expect([standingOf(observer, brief), standingOf(observer, usual)]).toEqual(['dead', 'alive']);
  });

  it('consider no executor dead when the clock of the database jumps', async () => {
    const { url, observer, peer, clock } = await pair();
    for (const hour of [3_600_000, -7_200_000]) {
      await tamper(
        url,
        `update executors set heartbeat_at = heartbeat_at + ${hour}, started_at = started_at + ${hour}`,
      );
      await pass(clock, 40_000);
      await tamper(url, `update executors set heartbeat_at = heartbeat_at + ${hour}`);
      await pass(clock, 4_000);
    }
    expect([observer.reports(), peer.reports()]).toEqual([0, 0]);
  });

  it('consider no executor dead after an outage of the database, however long', async () => {
    const { url, observer, peer, clock } = await pair();
    await tamper(url, 'alter table executors rename to executors_away');
    await pass(clock, 600_000);
    expect([observer.liveness.confirmed, peer.liveness.confirmed]).toEqual([false, false]);
    await tamper(url, 'alter table executors_away rename to executors');
    // Before any executor has had the time to send a heartbeat.
    for (const each of [observer, peer]) await each.liveness.pollNow();
    await pass(clock, 40_000);
    expect([observer.liveness.confirmed, peer.liveness.confirmed]).toEqual([true, true]);
    expect([observer.reports(), peer.reports()]).toEqual([0, 0]);
  });

  it('consider no executor dead after they were paused themselves', async () => {
    const url = await backend.newDatabase();
    const observer = await members.join(url);
    const peer = await members.join(url, { process: elsewhere });
    await pass(observer.clock, 5_000);
    // The observer did not run meanwhile. It polls again an hour later, before the peer can send a heartbeat.
    await observer.clock.advance('1h');
    expect(observer.liveness.confirmed).toBe(true);
    await pass(peer.clock, 5_000);
    await pass(observer.clock, 20_000);
    expect([standingOf(observer, peer), observer.reports()]).toEqual(['suspected', 0]);
    await pass(peer.clock, 5_000);
    await pass(observer.clock, 5_000);
    expect(standingOf(observer, peer)).toBe('alive');
  });

  it('see that an executor which they considered dead is alive after a heartbeat, and can die again', async () => {
    const url = await backend.newDatabase();
    const observer = await members.join(url);
    const peer = await members.join(url, { process: elsewhere });
    await pass(observer.clock, 40_000);
    expect(standingOf(observer, peer)).toBe('dead');
    expect(peer.liveness.confirmed).toBe(true);
    await pass(peer.clock, 6_000);
    await pass(observer.clock, 5_500);
    expect([standingOf(observer, peer), observer.liveness.deaths()]).toEqual(['alive', []]);
    await pass(observer.clock, 40_000);
    expect([standingOf(observer, peer), observer.reports()]).toEqual(['dead', 2]);
  });

  it('add their row again when it was deleted by mistake', async () => {
    const { url, observer, peer, clock } = await pair();
    await tamper(url, `delete from executors where incarnation = '${peer.incarnation}'`);
    await pass(clock, 10_500);
    expect(standingOf(observer, peer)).toBe('alive');
    expect(peer.liveness.confirmed).toBe(true);
  });

  it('forget an executor that has shut down, and do not report it dead', async () => {
    const { observer, peer, clock } = await pair();
    await peer.liveness.stop();
    await pass(clock, 5_500);
    expect([standingOf(observer, peer), observer.reports()]).toEqual([undefined, 0]);
  });

  it('see at once, and without a statement, that a process on their host is gone', async () => {
    const url = await backend.newDatabase();
    const gone = new Set<string>();
    const isGone = (peer: ExecutorRecord): boolean => gone.has(peer.incarnation);
    const clock = new VirtualClock();
    const peer = await members.join(url, { clock, isGone });
    const observer = await members.join(url, { clock, isGone });
    await peer.liveness.abandon();
    gone.add(peer.incarnation);
    const before = observer.statements.length;
    await pass(clock, 500);
    expect(observer.liveness.deaths()).toMatchObject([
      { incarnation: peer.incarnation, why: expect.stringMatching(/process/) },
    ]);
    expect([observer.reports(), observer.statements.length]).toEqual([1, before]);
  });

  it('trust heartbeats that continue more than what they see of processes on their host', async () => {
    const url = await backend.newDatabase();
    const clock = new VirtualClock();
    const observer = await members.join(url, { clock, isGone: () => true });
    const peer = await members.join(url, { clock });
    await pass(clock, 5_500);
    expect(standingOf(observer, peer)).toBe('dead');
    await pass(clock, 60_000);
    expect([standingOf(observer, peer), observer.reports()]).toEqual(['alive', 1]);
  });

  it('know right after launch which processes on their host are gone', async () => {
    const url = await backend.newDatabase();
    const peer = await members.join(url);
    await peer.liveness.abandon();
    const observer = await members.join(url, { isGone: ({ incarnation }) => incarnation === peer.incarnation });
    expect(observer.liveness.deaths()).toMatchObject([{ incarnation: peer.incarnation }]);
  });
});
