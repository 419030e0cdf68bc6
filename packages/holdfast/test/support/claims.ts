import { vi } from 'vitest';
import { engineOf } from '../../src/engine/running-apps.js';

/**
 * Keeps an app from claiming work: in a test in which another app takes over its workflows, both would compete for
 * them.
 */
export function claimNothing(app: object): void {
  const engine = engineOf(app);
  if (!engine) throw new Error('claimNothing() needs an app.');
  vi.spyOn(engine.claims, 'claimAndRun').mockResolvedValue([]);
}
