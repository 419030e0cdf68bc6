import { describe, expect, it } from 'vitest';
import type { LimitSettings } from '../model/queues.js';
import { freeHere, freeInFleet, nextStart, shareOut, spansFleet } from './plan.js';

const unlimited: LimitSettings = { concurrency: null, workerConcurrency: null, rateLimit: null };
const used = (running: number, recentStarts = 0, nextStartAt: number | null = null) => ({
  running,
  recentStarts,
  nextStartAt,
});

describe('free slots', () => {
  it('are unlimited on a queue without limits', () => {
    expect(freeInFleet(unlimited, used(1_000_000))).toBe(Number.POSITIVE_INFINITY);
    expect(freeHere(unlimited, 1_000_000)).toBe(Number.POSITIVE_INFINITY);
  });

  it('are limited by the stricter of two fleet limits', () => {
    const limits = { ...unlimited, concurrency: 10, rateLimit: { max: 5, perMs: 1000 } };
    expect(freeInFleet(limits, used(3, 4))).toBe(1);
    expect(freeInFleet(limits, used(9, 0))).toBe(1);
  });

  it('are negative when more runs than a lowered limit allows', () => {
    expect(freeInFleet({ ...unlimited, concurrency: 2 }, used(5))).toBe(-3);
    expect(freeHere({ ...unlimited, workerConcurrency: 2 }, 5)).toBe(-3);
  });
});

describe('the next start under a rate limit', () => {
  const limits = { ...unlimited, rateLimit: { max: 2, perMs: 1000 } };

  it('is possible when the oldest start leaves the period', () => {
    expect(nextStart(limits, used(0, 2, 500))).toBe(1500);
  });

  it('is undefined while the limit still has room, or another limit blocks', () => {
    expect(nextStart(limits, used(0, 1, 500))).toBeUndefined();
    expect(nextStart({ ...unlimited, concurrency: 1 }, used(1))).toBeUndefined();
  });
});

it('processes must agree only on limits of the fleet', () => {
  expect(spansFleet({ ...unlimited, workerConcurrency: 1 })).toBe(false);
  expect(spansFleet({ ...unlimited, concurrency: 1 })).toBe(true);
  expect(spansFleet({ ...unlimited, rateLimit: { max: 1, perMs: 1 } })).toBe(true);
});

describe('slots are shared between partitions', () => {
  const share = (partition: string, most: number) => ({ partition, most });

  it('in rounds: every partition gets one slot before any gets a second', () => {
    const { portions, last } = shareOut(4, [share('a', 9), share('b', 9), share('c', 9)]);
    expect(portions).toEqual([
      { partition: 'a', n: 2 },
      { partition: 'b', n: 1 },
      { partition: 'c', n: 1 },
    ]);
    expect(last).toBe('a');
  });

  it('up to what each partition can take, and not beyond', () => {
    const { portions } = shareOut(100, [share('a', 1), share('none', 0), share('b', 2)]);
    expect(portions).toEqual([
      { partition: 'a', n: 1 },
      { partition: 'b', n: 2 },
    ]);
  });

  it('with nothing to share, and nobody to share with', () => {
    expect(shareOut(0, [share('a', 1)])).toEqual({ portions: [], last: undefined });
    expect(shareOut(3, [])).toEqual({ portions: [], last: undefined });
  });
});
