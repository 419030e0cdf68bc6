import { expect, it } from 'vitest';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { elsewhere, fleet, type Member, pass } from '../support/fleet.js';

/** How long the observer's own session must have existed before the absence of another's lock means anything. */
const sessionsReturnMs = 10_000;

describeBackends(
  'the lock of an executor',
  (backend) => {
    const members = fleet();
    const rows = (url: string): Promise<Record<string, unknown>[]> =>
      tamper(
        url,
        `select e.incarnation, e.lock_key, l.pid from executors e
           left join pg_locks l on l.locktype = 'advisory' and l.objsubid = 2 and l.objid::text = e.lock_key
          order by e.started_at`,
      );
    const rowOf = async (url: string, member: Member) =>
      (await rows(url)).find((row) => row.incarnation === member.incarnation);
    const until = async (holds: () => Promise<boolean>): Promise<void> => {
      while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
    };
    /** The row names a lock, and a session holds that lock. */
    const isPresent = (url: string, member: Member) => async () => typeof (await rowOf(url, member))?.pid === 'number';
    const pair = async () => {
      const url = await backend.newDatabase();
      const observer = await members.join(url);
      const peer = await members.join(url, { clock: observer.clock, executorId: 'peer', process: elsewhere });
      for (const each of [observer, peer]) await until(isPresent(url, each));
      return { url, observer, peer, clock: observer.clock };
    };

    it('shows the death of the executor within two seconds, although its time to live is long', async () => {
      const { url, observer, peer, clock } = await pair();
      await pass(clock, sessionsReturnMs);
      await peer.liveness.abandon();
      await peer.endSession();
      await until(async () => (await rowOf(url, peer))?.pid === null);
      await pass(clock, 1_500);
      expect(observer.liveness.deaths()).toMatchObject([{ executorId: 'peer', why: expect.stringMatching(/session/) }]);
      expect(observer.reports()).toBe(1);
    });

    it('does not show a death when it is missing in one check only', async () => {
      const { url, observer, peer, clock } = await pair();
      await pass(clock, sessionsReturnMs);
      await peer.liveness.abandon();
      const key = (await rowOf(url, peer))?.lock_key;
      const sway = (to: unknown) => tamper(url, `update executors set lock_key = '${to}' where executor_id = 'peer'`);
      for (let times = 0; times < 4; times++) {
        await sway(1);
        await observer.liveness.pollNow();
        expect(observer.liveness.executors().map(({ state }) => state)).toEqual(['alive', 'suspected']);
        await sway(key);
        await pass(clock, 1_000);
      }
      expect([observer.liveness.deaths(), observer.reports()]).toEqual([[], 0]);
    });

    it('does not show a death while its session is reopened', async () => {
      const { url, observer, peer, clock } = await pair();
      await pass(clock, sessionsReturnMs);
      for (let times = 0; times < 3; times++) {
        const before = (await rowOf(url, peer))?.pid;
        await tamper(url, `select pg_terminate_backend(${before})`);
        // The row is updated at once: first without a lock, then with one again.
        await until(async () => {
          await clock.advance(0);
          const row = await rowOf(url, peer);
          return row?.lock_key === null || row?.pid !== before;
        });
        await pass(clock, 5_000);
        await until(async () => (await isPresent(url, peer)()) && (await rowOf(url, peer))?.pid !== before);
        await pass(clock, 1_000);
      }
      expect([observer.liveness.deaths(), observer.reports()]).toEqual([[], 0]);
    });

    it('does not show a death while the observer lacks its own session, nor shortly after', async () => {
      const { url, observer, peer, clock } = await pair();
      await pass(clock, sessionsReturnMs);
      await peer.liveness.abandon();
      await peer.endSession();
      await until(async () => (await rowOf(url, peer))?.pid === null);
      const own = (await rowOf(url, observer))?.pid;
      await tamper(url, `select pg_terminate_backend(${own})`);
      await until(async () => (await rowOf(url, observer))?.pid !== own);
      await until(isPresent(url, observer));
      await pass(clock, sessionsReturnMs - 1_000);
      expect(observer.liveness.deaths()).toEqual([]);
      await pass(clock, 3_000);
      expect(observer.liveness.deaths()).toMatchObject([{ executorId: 'peer' }]);
    });
  },
  ['postgres'],
);
