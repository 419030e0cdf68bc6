import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import type { CancelledWorkflow } from '../storage/storage.js';

const everyMs = 500;

/** A commit may become visible this long after the instant that it carries; looking back further misses none. */
const overlapMs = 10_000;

/** Tells the workflows that run here when another process has cancelled them. */
export function cancellationWatch(
  engine: Engine & { readonly size: number; wasCancelled(cancelled: CancelledWorkflow): void },
): Loop {
  let since = engine.clock.now();
  let lastChange: number | null = null;
  const runOnce = async (): Promise<void> => {
    const change = engine.storage.changeCounter();
    const unchanged = change !== null && change === lastChange;
    if (engine.size === 0 || unchanged) return;
    const now = engine.clock.now();
    const cancelled = await engine.storage.workflows.cancelledSince(since - overlapMs);
    for (const each of cancelled) engine.wasCancelled(each);
    [since, lastChange] = [now, change];
  };
  const { clock, logger } = engine;
  return new Loop({ name: 'The cancellation watch', everyMs, clock, logger, runOnce });
}
