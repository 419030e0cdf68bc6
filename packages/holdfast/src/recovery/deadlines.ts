import type { Engine } from '../engine/engine.js';
import { timeoutReason } from '../engine/execution/workflow-errors.js';
import { Loop } from '../engine/loop.js';

const sweepMs = 5000;
const pageSize = 500;

/**
 * Cancels workflows whose deadline has passed, but whose own timer did not fire because their process died and no
 * other process has recovered them yet. A deadline applies even if no process runs the workflow.
 */
export function deadlineSweep(engine: Engine): Loop {
  const runOnce = async (): Promise<void> => {
    for (;;) {
      const now = engine.clock.now();
      const expired = await engine.storage.workflows.expired({ now, limit: pageSize });
      if (expired.length > 0) await engine.cancellations.cancel(expired, timeoutReason());
      if (expired.length < pageSize) return;
    }
  };
  const { clock, logger } = engine;
  return new Loop({ name: 'The deadline sweep', everyMs: sweepMs, clock, logger, runOnce });
}
