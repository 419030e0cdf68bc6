import { describe, expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import { StartGate } from '../engine/start-gate.js';
import { OwnerTokens } from '../model/ids.js';
import { VirtualClock } from '../testing/virtual-clock.js';
import { Liveness } from './liveness.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const ttlMs = 30_000;

/** Heartbeats to a database that answers when the test says so. */
class Beats {
  readonly clock = new VirtualClock();
  readonly startGate = new StartGate();
  /** Those that wait for an answer, with what they say of the lock. */
  readonly waiting: {
    readonly lockKey: unknown;
    answer(found: { takeovers: number } | undefined): void;
    fail(): void;
  }[] = [];
  sent = 0;
  joined = 0;
  readonly liveness: Liveness;

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
    this.liveness = new Liveness(parts as unknown as Engine, { ttlMs, monotonic: () => clock.now() });
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
  it('confirms from when it was sent, however late its answer', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    await beats.pass(5_000);
    expect(beats.sent).toBe(1);
    await beats.pass(14_500);
    expect(beats.liveness.confirmed).toBe(true);
    await beats.pass(1_000);
    expect(beats.liveness.confirmed).toBe(false);
    // Sent at 5 s: good until 25 s, and 20.5 s have passed.
    await beats.answer();
    expect(beats.liveness.confirmed).toBe(true);
    await beats.pass(5_000);
    expect(beats.liveness.confirmed).toBe(false);
    await beats.liveness.abandon();
  });

  it('that gets no answer does not hold up the next one, and not too many wait at a time', async () => {
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

  it('that finds its executor gone makes it join again, and is confirmed by that', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    await beats.pass(21_000);
    expect([beats.joined, beats.liveness.confirmed]).toEqual([1, false]);
    await beats.answer(false);
    expect([beats.joined, beats.liveness.confirmed]).toEqual([2, true]);
    await beats.liveness.abandon();
  });

  it('that comes after too long a silence confirms only once what was lost is parted with', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    let returns = 0;
    let parted = Promise.reject(new Error('lost'));
    parted.catch(() => {});
    beats.liveness.onReturn = () => {
      returns++;
      return parted;
    };
    await beats.pass(5_500);
    await beats.answer();
    expect(returns).toBe(0);
    await beats.pass(25_000);
    await beats.answer();
    expect([returns, beats.liveness.confirmed]).toEqual([1, false]);
    parted = Promise.resolve() as Promise<never>;
    await beats.pass(10_000);
    await beats.answer();
    await beats.answer();
    expect([returns > 1, beats.liveness.confirmed]).toEqual([true, true]);
    await beats.liveness.abandon();
  });

  it('says at once that the lock is lost, and that it is back, also while another is under way', async () => {
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

  it('ends with the app, also if it still waits for an answer', async () => {
    const beats = new Beats();
    await beats.liveness.start();
    await beats.pass(5_000);
    expect(beats.waiting).toHaveLength(1);
    await beats.liveness.stop();
  });
});
