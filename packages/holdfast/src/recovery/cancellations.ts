import { Loop } from '../engine/loop.js';
import { dropLost, type RunningEngine } from './drop-lost.js';

const everyMs = 500;

/**
 * Pace of the check for deleted workflows. A workflow may be cancelled and deleted between two polls for
 * cancellations; the second poll then does not find it. So the check runs at each notification of a deletion, and
 * every `maxMs` in any case. On SQLite, where a notification does not say what has changed, the check runs at most
 * every `minMs`.
 */
const deletionCheck = { minMs: 5_000, maxMs: 60_000 };

/**
 * A commit may become visible this long after the instant that it stores. Each poll therefore overlaps the one before
 * it.
 */
const overlapMs = 10_000;

/** Stops the workflows of this process that another process has cancelled or deleted. */
export function cancellationWatch(engine: RunningEngine): Loop {
  let since = engine.clock.now();
  let lastChange: number | null = null;
  const deletions = deletionWatch(engine);
  const runOnce = async (): Promise<void> => {
    const change = engine.storage.changeCounter();
    const unchanged = change !== null && change === lastChange;
    const now = engine.clock.now();
    if (engine.executions.size > 0 && !unchanged) {
      const cancelled = await engine.storage.workflows.cancelledSince(since - overlapMs);
      for (const each of cancelled) engine.cancellations.handle(each);
      lastChange = change;
    }
    // `since` also moves on after a run without a poll. Otherwise the next poll would read every cancellation since the
    // last poll.
    since = now;
    await deletions.check(change);
  };
  const { clock, logger } = engine;
  const loop = new Loop({ name: 'The cancellation watch', everyMs, clock, logger, runOnce });
  engine.news.subscribe((topic) => {
    if (topic === 'deleted') deletions.isDue = true;
    if (topic === null || topic === 'cancelled' || topic === 'deleted') loop.wake();
  });
  return loop;
}

/** Finds workflows of this process that another process has deleted. */
function deletionWatch(engine: RunningEngine) {
  const { clock } = engine;
  let lastCheckAt = clock.now();
  let lastChange: number | null = null;
  const watch = {
    isDue: false,
    check: async (change: number | null): Promise<void> => {
      const sinceMs = clock.now() - lastCheckAt;
      const isChanged = change !== lastChange && sinceMs >= deletionCheck.minMs;
      if (!watch.isDue && !isChanged && sinceMs < deletionCheck.maxMs) return;
      [watch.isDue, lastCheckAt, lastChange] = [false, clock.now(), change];
      // CANCELLED workflows are left out here: this process may have cancelled one itself, and the answer may arrive
      // later.
      if (engine.executions.size > 0) await dropLost(engine, 'deleted');
    },
  };
  return watch;
}
