import { afterEach, beforeEach, vi } from 'vitest';
import { News } from '../../src/engine/wait/news.js';
import { Liveness } from '../../src/recovery/liveness.js';

/**
 * Hides takeover notifications from the apps of a suite, so that a former owner notices only by its own writes and
 * heartbeats. This path must work without notifications, and would rarely run if a notification arrived first.
 */
export function withoutTakeoverNews(): void {
  beforeEach(() => void vi.spyOn(Liveness.prototype, 'noteTakeover').mockImplementation(() => {}));
  afterEach(() => vi.restoreAllMocks());
}

/** Processes neither send nor receive notifications: each one learns what others did only by polling. */
export function withoutNews(): void {
  beforeEach(() => {
    vi.spyOn(News.prototype, 'start').mockResolvedValue();
    vi.spyOn(News.prototype, 'announceToOthers').mockImplementation(() => {});
  });
  afterEach(() => vi.restoreAllMocks());
}
