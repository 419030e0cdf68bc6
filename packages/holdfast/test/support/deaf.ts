import { afterEach, beforeEach, vi } from 'vitest';
import { Liveness } from '../../src/recovery/liveness.js';

/**
 * Keeps news of takeovers from the apps of a suite: one that lives finds out by its own writes and heartbeats. What must
 * hold then must not depend on news, and would hardly be tried where news comes first.
 */
export function deafToTakeovers(): void {
  beforeEach(() => void vi.spyOn(Liveness.prototype, 'heardOfTakeover').mockImplementation(() => {}));
  afterEach(() => vi.restoreAllMocks());
}
