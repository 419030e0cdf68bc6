import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DatabaseClock } from './clock.js';

describe('the clock that follows the database', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
  afterEach(() => void vi.useRealTimers());

  const hour = 3_600_000;

  it('wakes neither early nor late, even after more than 2^31 milliseconds', () => {
    const clock = new DatabaseClock();
    let woken = false;
    clock.at(clock.now() + 1000 * hour, () => {
      woken = true;
    });
    vi.advanceTimersByTime(1000 * hour - 1000);
    expect(woken).toBe(false);
    vi.advanceTimersByTime(1001);
    expect(woken).toBe(true);
  });

  it('wakes soon if the server reports that the instant passed while this host was suspended', () => {
    const clock = new DatabaseClock();
    let woken = false;
    clock.at(clock.now() + 8 * hour, () => {
      woken = true;
    });
    const monotonic = performance.now();
    clock.sync(clock.now() + 8 * hour, monotonic, monotonic);
    vi.advanceTimersByTime(60_000);
    expect(woken).toBe(true);
  });

  it('does not call the callback of a cancelled timer', () => {
    const clock = new DatabaseClock();
    let woken = false;
    const timer = clock.at(clock.now() + hour, () => {
      woken = true;
    });
    vi.advanceTimersByTime(hour / 2);
    timer.cancel();
    vi.advanceTimersByTime(hour);
    expect(woken).toBe(false);
  });
});
