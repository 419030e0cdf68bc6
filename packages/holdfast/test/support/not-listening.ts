import { afterEach, beforeEach, vi } from 'vitest';
import { News } from '../../src/engine/wait/news.js';
import { Liveness } from '../../src/recovery/liveness.js';

/**
 * Keeps news of takeovers from the apps of a suite: one that lives finds out by its own writes and heartbeats. What must
 * hold then must not depend on news, and would hardly be tried where news comes first.
 */
export function deafToTakeovers(): void {
  beforeEach(() => void vi.spyOn(Liveness.prototype, 'heardOfTakeover').mockImplementation(() => {}));
  afterEach(() => vi.restoreAllMocks());
}

/** Processes that tell nobody anything and hear nothing: what one does, another finds by looking. */
export function withoutNews(): void {
  beforeEach(() => {
    vi.spyOn(News.prototype, 'start').mockResolvedValue();
    vi.spyOn(News.prototype, 'announceToOthers').mockImplementation(() => {});
  });
  afterEach(() => vi.restoreAllMocks());
}
