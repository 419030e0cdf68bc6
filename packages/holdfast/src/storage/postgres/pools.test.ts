import { EventEmitter } from 'node:events';
import type pg from 'pg';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { silent } from '../../../test/support/backends.js';
import { type Lease, Pools } from './pools.js';
import type { Server } from './server.js';

/** A pool that opens a connection when the test calls `open`. */
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
    await flush();
  }

  private release(client: unknown, isBroken = false): void {
    this.emit('release');
    if (isBroken) this.totalCount--;
    else this.idle.push(client);
  }
}

/** Runs everything that is due now, except timers. */
async function flush(): Promise<void> {
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

  it('open one connection at a time, and reuse connections that become free meanwhile', async () => {
    const leases: Promise<Lease>[] = Array.from({ length: 5 }, () => pools.take('writing'));
    await flush();
    expect(writers).toMatchObject({ totalCount: 1, opening: 1 });
    await writers?.open();
    // The first lease has its connection, and the pool opens another one.
    expect(writers).toMatchObject({ totalCount: 2, opening: 1 });
    (await leases[0])?.release();
    await flush();
    (await leases[2])?.release();
    await flush();
    // Both released connections were reused, so no third connection was opened.
    expect(writers).toMatchObject({ totalCount: 2, opening: 1, idleCount: 0 });
  });

  it('open another connection if the first one does not open in time', async () => {
    void Promise.all([pools.take('writing'), pools.take('writing')]);
    await flush();
    expect(writers?.opening).toBe(1);
    await vi.advanceTimersByTimeAsync(60);
    expect(writers?.opening).toBe(2);
  });

  it('give a shared statement a free connection of either kind', async () => {
    const first = pools.take('writing');
    await writers?.open();
    (await first).release();
    await flush();
    const shared = await pools.take('shared');
    expect(shared.kind).toBe('writing');

    const general1 = pools.take('general');
    await general?.open();
    (await general1).release();
    await flush();
    // All connections for writing are in use.
    expect((await pools.take('shared')).kind).toBe('general');
  });

  it('let shared statements wait for a connection in use, and open another one when the wait is over', async () => {
    const first = pools.take('shared writing');
    await writers?.open();
    const lease = await first;
    const [patient, late] = [pools.take('shared'), pools.take('shared')];
    await flush();
    lease.release();
    await flush();
    expect((await patient).kind).toBe('writing');
    expect([general?.opening, writers?.totalCount]).toEqual([0, 1]);
    await vi.advanceTimersByTimeAsync(240);
    expect([general?.opening, writers?.totalCount]).toEqual([0, 1]);
    await vi.advanceTimersByTimeAsync(20);
    expect([general?.opening, writers?.totalCount]).toEqual([1, 1]);
    await general?.open();
    expect((await late).kind).toBe('general');
  });

  it('open a connection for a shared statement after a short wait if the process is busy', async () => {
    const working = pools.take('writing');
    await writers?.open();
    await working;
    void pools.take('shared');
    await vi.advanceTimersByTimeAsync(30);
    expect(general?.opening).toBe(1);
  });

  it('close all but one of the connections that only shared statements used during the idle time', async () => {
    const working = [pools.take('writing'), pools.take('writing')];
    await flush();
    await writers?.open();
    await writers?.open();
    for (const lease of working) (await lease).release();
    const shareBoth = async (): Promise<void> => {
      const leases = await Promise.all([pools.take('shared'), pools.take('shared')]);
      for (const lease of leases) lease.release();
    };
    await shareBoth();
    expect(writers?.totalCount).toBe(2);
    // The test waits for twice the idle time: the demand at the beginning of one idle time counts until the end of the
    // next one.
    for (let second = 0; second < 23; second++) {
      await vi.advanceTimersByTimeAsync(1_000);
      if (writers?.totalCount === 2) await shareBoth();
    }
    expect(writers?.totalCount).toBe(1);
  });

  it('use no connection that was opened before a failover', async () => {
    const first = pools.take('locked');
    await forLocked?.open();
    const lease = await first;
    lease.release();
    await flush();
    pools.noteFailover();
    void pools.take('locked');
    await flush();
    expect(forLocked).toMatchObject({ totalCount: 1, opening: 1 });
  });
});
