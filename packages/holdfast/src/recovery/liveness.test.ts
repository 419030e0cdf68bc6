import { describe, expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import { StartGate } from '../engine/start-gate.js';
import { OwnerTokens } from '../model/ids.js';
import { VirtualClock } from '../testing/virtual-clock.js';
import { Liveness } from './liveness.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const ttlMs = 30_000;

/** Heartbeats to a database that answers when the test tells it to. */
class Beats {
  readonly clock = new VirtualClock();
  readonly startGate = new StartGate();
  /** Heartbeats without an answer yet, each with the lock key that it reports. */
  readonly waiting: {
    readonly lockKey: unknown;
    answer(found: { takeovers: number } | undefined): void;
    fail(): void;
  }[] = [];
  sent = 0;
  joined = 0;
  readonly liveness: Liveness;
  onPossibleLoss = async (): Promise<void> => {};

  constructor() {
    const executors = {
      join: async () => void this.joined++,
      list: async () => [],
      leave: async () => {},
      beat: (_: string, { lockKey }: { lockKey: unknown }) => {
        this.sent++;
        return new Promise<{ takeovers: number } | undefined>((resolve, reject) => {
          this.waiting.push({ lockKey, answer: resolve, fail: () => reject(new Error('lost')) });
        });
      },
    };
    const { clock, startGate } = this;
    const writer = { executorId: 'me', appName: 'app' };
    const storage = { executors, announce: async () => {} };
    const news = { announceToOthers: () => {} };
    const parts = { clock, startGate, logger: silent, owners: new OwnerTokens(), storage, news, writer };
    const actions = {
      onPossibleLoss: () => this.onPossibleLoss(),
      onRollback: async () => {},
      onRowLost: async () => {},
    };
    this.liveness = new Liveness(parts as unknown as Engine, actions, { ttlMs, monotonic: () => clock.now() });
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 500) await this.clock.advance(500);
  }

  async answer(found = true): Promise<void> {
    this.waiting.shift()?.answer(found ? { takeovers: 0 } : undefined);
    await this.clock.advance(0);
  }
}

describe('a heartbeat', () => {
  it('confirms the executor from the time it was sent, even if the answer is late', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    await beats.pass(5_000);
    expect(beats.sent).toBe(1);
    await beats.pass(14_500);
    expect(beats.liveness.confirmed).toBe(true);
    await beats.pass(1_000);
    expect(beats.liveness.confirmed).toBe(false);
    // The heartbeat was sent at 5 s and is valid until 25 s. Now it is 20.5 s.
    await beats.answer();
    expect(beats.liveness.confirmed).toBe(true);
    await beats.pass(5_000);
    expect(beats.liveness.confirmed).toBe(false);
    await beats.liveness.abandon();
  });

  it('without an answer does not block the next one, and at most two wait at a time', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    await beats.pass(60_000);
    expect([beats.sent, beats.waiting.length]).toEqual([2, 2]);
    beats.waiting.shift()?.fail();
    await beats.pass(5_500);
    expect(beats.sent).toBe(3);
    await beats.answer();
    await beats.answer();
    expect(beats.liveness.confirmed).toBe(true);
    await beats.liveness.abandon();
  });

  it('that finds no row of its executor makes it join again, and the join confirms it', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    await beats.pass(21_000);
    expect([beats.joined, beats.liveness.confirmed]).toEqual([1, false]);
    await beats.answer(false);
    expect([beats.joined, beats.liveness.confirmed]).toEqual([2, true]);
    await beats.liveness.abandon();
  });

  it('after too long a silence confirms the executor only after lost work was dropped', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    let returns = 0;
    let dropped = Promise.reject(new Error('lost'));
    dropped.catch(() => {});
    beats.onPossibleLoss = () => {
      returns++;
      return dropped;
    };
    await beats.pass(5_500);
    await beats.answer();
    expect(returns).toBe(0);
    await beats.pass(25_000);
    await beats.answer();
    expect([returns, beats.liveness.confirmed]).toEqual([1, false]);
    dropped = Promise.resolve() as Promise<never>;
    await beats.pass(10_000);
    await beats.answer();
    await beats.answer();
    expect([returns > 1, beats.liveness.confirmed]).toEqual([true, true]);
    await beats.liveness.abandon();
  });

  it('reports at once that the lock is lost or held again, even while another one is in progress', async () => {
    const beats = new Beats();
    const { presence } = beats.liveness;
    await beats.liveness.start();
    presence.held(true);
    await beats.clock.advance(0);
    expect(beats.waiting.map(({ lockKey }) => lockKey)).toEqual([presence.key]);
    presence.held(false);
    await beats.answer();
    expect(beats.waiting.map(({ lockKey }) => lockKey)).toEqual([null]);
    await beats.answer();
    expect(beats.waiting).toEqual([]);
    await beats.liveness.abandon();
  });

  it('ends with the app, even if it still waits for an answer', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    await beats.pass(5_000);
    expect(beats.waiting).toHaveLength(1);
    await beats.liveness.stop();
  });
});
