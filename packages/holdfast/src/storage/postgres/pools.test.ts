import { EventEmitter } from 'node:events';
import type pg from 'pg';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { silent } from '../../../test/support/backends.js';
import { type Lease, Pools } from './pools.js';
import type { Server } from './server.js';

/** A pool whose connections are opened when the test says so. */
class FakePool extends EventEmitter {
  readonly options: { readonly max: number };
  totalCount = 0;
  readonly waitingCount = 0;
  private readonly idle: unknown[] = [];
  private readonly openings: (() => void)[] = [];

  constructor({ max = 1 }: pg.PoolConfig) {
    super();
    this.options = { max };
  }

  get opening(): number {
    return this.openings.length;
  }

  get idleCount(): number {
    return this.idle.length;
  }

  connect(): Promise<unknown> {
    if (this.idle.length > 0) return Promise.resolve(this.idle.pop());
    this.totalCount++;
    const client = new EventEmitter();
    Object.assign(client, { release: (isBroken?: boolean) => this.release(client, isBroken) });
    return new Promise((resolve) => {
      this.openings.push(() => {
        this.emit('connect', client);
        resolve(client);
      });
    });
  }

  async open(): Promise<void> {
    this.openings.shift()?.();
    await turns();
  }

  private release(client: unknown, isBroken = false): void {
    this.emit('release');
    if (isBroken) this.totalCount--;
    else this.idle.push(client);
  }
}

/** Lets everything that is due now happen, but for timers. */
async function turns(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe('the pools of a process', () => {
  let [general, writers, forLocked]: FakePool[] = [];
  let pools: Pools;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const made: FakePool[] = [];
    const server = { pool: (config: pg.PoolConfig) => made[made.push(new FakePool(config)) - 1] } as unknown as Server;
    const times = { answerTimeoutMs: 1_000, statementTimeoutMs: 800, lockTimeout: '' };
    pools = new Pools({} as typeof pg, server, { logger: silent, applicationName: '', ...times, onOpened() {} });
    [general, writers, forLocked] = made;
    return () => vi.useRealTimers();
  });

  it('open one connection at a time, and hand on what comes free meanwhile', async () => {
    const leases: Promise<Lease>[] = Array.from({ length: 5 }, () => pools.take('writing'));
    await turns();
    expect(writers).toMatchObject({ totalCount: 1, opening: 1 });
    await writers?.open();
    // The first has its connection, and another one is being opened.
    expect(writers).toMatchObject({ totalCount: 2, opening: 1 });
    (await leases[0])?.release();
    await turns();
    (await leases[2])?.release();
    await turns();
    // Both were handed on, and no third connection was needed for that.
    expect(writers).toMatchObject({ totalCount: 2, opening: 1, idleCount: 0 });
  });

  it('open another one where the first does not come up', async () => {
    void Promise.all([pools.take('writing'), pools.take('writing')]);
    await turns();
    expect(writers?.opening).toBe(1);
    await vi.advanceTimersByTimeAsync(60);
    expect(writers?.opening).toBe(2);
  });

  it('share the connection that is open, of whichever kind', async () => {
    const first = pools.take('writing');
    await writers?.open();
    (await first).release();
    await turns();
    const shared = await pools.take('shared');
    expect(shared.kind).toBe('writing');

    const general1 = pools.take('general');
    await general?.open();
    (await general1).release();
    await turns();
    // All writers have something to do.
    expect((await pools.take('shared')).kind).toBe('general');
  });

  it('let what is shared wait for a connection that others use, and open one at last', async () => {
    const first = pools.take('shared writing');
    await writers?.open();
    const lease = await first;
    const [patient, late] = [pools.take('shared'), pools.take('shared')];
    await turns();
    lease.release();
    await turns();
    expect((await patient).kind).toBe('writing');
    expect([general?.opening, writers?.totalCount]).toEqual([0, 1]);
    await vi.advanceTimersByTimeAsync(240);
    expect([general?.opening, writers?.totalCount]).toEqual([0, 1]);
    await vi.advanceTimersByTimeAsync(20);
    expect([general?.opening, writers?.totalCount]).toEqual([1, 1]);
    await general?.open();
    expect((await late).kind).toBe('general');
  });

  it('let what is shared open one soon where others are at work', async () => {
    const working = pools.take('writing');
    await writers?.open();
    await working;
    void pools.take('shared');
    await vi.advanceTimersByTimeAsync(30);
    expect(general?.opening).toBe(1);
  });

  it('close what only background statements have used for the idle time, but for one', async () => {
    const working = [pools.take('writing'), pools.take('writing')];
    await turns();
    await writers?.open();
    await writers?.open();
    for (const lease of working) (await lease).release();
    const shareBoth = async (): Promise<void> => {
      const leases = await Promise.all([pools.take('shared'), pools.take('shared')]);
      for (const lease of leases) lease.release();
    };
    await shareBoth();
    expect(writers?.totalCount).toBe(2);
    // As much again: what was needed at the beginning of an idle time counts until the end of the next one.
    for (let second = 0; second < 23; second++) {
      await vi.advanceTimersByTimeAsync(1_000);
      if (writers?.totalCount === 2) await shareBoth();
    }
    expect(writers?.totalCount).toBe(1);
  });

  it('use no connection that was opened before the server moved', async () => {
    const first = pools.take('locked');
    await forLocked?.open();
    const lease = await first;
    lease.release();
    await turns();
    pools.moved();
    void pools.take('locked');
    await turns();
    expect(forLocked).toMatchObject({ totalCount: 1, opening: 1 });
  });
});
