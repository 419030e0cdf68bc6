import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import type { CancelledWorkflow } from '../storage/contract/storage.js';
import { dropLost, type HoldingEngine } from './drop-lost.js';

const everyMs = 500;

/**
 * What was cancelled may be deleted before the next look, and is then not found among what was. So whatever is held here
 * is looked for at news of a deletion, and this often in any case; on SQLite, where no news says what it is about, not
 * more often than the shorter one.
 */
const heldEveryMs = { atMost: 5_000, atLeast: 60_000 };

/** A commit may become visible this long after the instant that it carries; looking back further misses none. */
const overlapMs = 10_000;

/** Tells the workflows that run here when another process has cancelled them. */
export function cancellationWatch(
  engine: Engine & HoldingEngine & { readonly size: number; wasCancelled(cancelled: CancelledWorkflow): void },
): Loop {
  let since = engine.clock.now();
  let lastChange: number | null = null;
  const held = heldWatch(engine);
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
    await held.look(change);
  };
  const { clock, logger } = engine;
  const loop = new Loop({ name: 'The cancellation watch', everyMs, clock, logger, runOnce });
  engine.news.subscribe((topic) => {
    if (topic === 'deleted') held.isDue = true;
    if (topic === null || topic === 'cancelled' || topic === 'deleted') loop.wake();
  });
  return loop;
}

/** Finds what was deleted under this process. */
function heldWatch(engine: Engine & HoldingEngine & { readonly size: number }) {
  const { clock } = engine;
  let lookedAt = clock.now();
  let lastChange: number | null = null;
  const watch = {
    isDue: false,
    look: async (change: number | null): Promise<void> => {
      const sinceMs = clock.now() - lookedAt;
      const isChanged = change !== lastChange && sinceMs >= heldEveryMs.atMost;
      if (!watch.isDue && !isChanged && sinceMs < heldEveryMs.atLeast) return;
      [watch.isDue, lookedAt, lastChange] = [false, clock.now(), change];
      // What is CANCELLED others see to: this process may have done it, and be about to learn that it did.
      if (engine.size > 0) await dropLost(engine, 'deleted');
    },
  };
  return watch;
}
