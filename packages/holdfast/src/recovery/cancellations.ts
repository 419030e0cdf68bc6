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
    const now = engine.clock.now();
    if (engine.size > 0 && !unchanged) {
      const cancelled = await engine.storage.workflows.cancelledSince(since - overlapMs);
      for (const each of cancelled) engine.wasCancelled(each);
      lastChange = change;
    }
    // Also when there was nothing to look for: or the next look would be for all that others have cancelled by then.
    since = now;
  };
  const { clock, logger } = engine;
  const loop = new Loop({ name: 'The cancellation watch', everyMs, clock, logger, runOnce });
  engine.news.listen((topic) => {
    if (topic === null || topic === 'cancelled') loop.wake();
  });
  return loop;
}
