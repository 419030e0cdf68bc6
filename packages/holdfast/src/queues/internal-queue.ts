import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import { internalQueue } from '../model/queues.js';

/** Looks this often for work that another process has put on the queue; in one process it is woken at once. */
const pollMs = 1000;
const pageSize = 100;

/** Runs what was resumed, or handed over by a process that shut down, if it is of this application version. */
export function internalQueueWorker(engine: Engine): Loop {
  const runOnce = async (): Promise<void> => {
    for (;;) {
      const claimed = await engine.claims.take(pageSize, (claim) =>
        engine.storage.workflows.claimEnqueued({ ...claim, queueName: internalQueue }),
      );
      if (claimed.length < pageSize) return;
    }
  };
  const { clock, logger } = engine;
  return new Loop({ name: 'The internal queue', everyMs: pollMs, clock, logger, runOnce });
}
