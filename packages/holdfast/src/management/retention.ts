import { setTimeout as delay } from 'node:timers/promises';
import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import type { RetentionSettings } from '../model/retention.js';
import type { ExpiredPage } from '../storage/deletions.js';

/** Rows that one statement looks at, and workflows that one statement deletes, with those below them. */
const pageSize = 500;
const batchSize = 50;

/**
 * Deletes workflows that ended long ago, or of which there are too many. Every process of the app that is told to does it,
 * without a leader: what one has deleted, another does not find.
 *
 * Between two pages it rests as long as the last one took, so that it has half of a connection's time at most.
 */
export function retention(engine: Engine, settings: RetentionSettings): Loop {
  const { clock, logger } = engine;
  // Not all processes at the same moment.
  const everyMs = (): number => settings.everyMs * (0.9 + Math.random() * 0.2);
  const runOnce = async (): Promise<void> => {
    const before = await cutoff(engine, settings);
    if (before === undefined) return;
    const { deleted, heldUp } = await sweep(engine, before);
    if (deleted > 0)
      logger.info(`Retention: ${deleted} workflows that ended before ${new Date(before).toISOString()} were deleted.`);
    if (heldUp > 0)
      logger.warn(`Retention: ${heldUp} workflows are locked by somebody, and are looked at again next time.`);
  };
  return new Loop({ name: 'Retention', everyMs, clock, logger, runOnce });
}

/** Up to when a workflow must have ended to be deleted: by its age, or because enough have ended since. */
async function cutoff({ storage, clock, writer }: Engine, settings: RetentionSettings): Promise<number | undefined> {
  const { afterMs, keep } = settings;
  const byAge = afterMs === null ? undefined : clock.now() - afterMs;
  const byNumber = keep === null ? undefined : await storage.deletions.cutoff({ appName: writer.appName, keep });
  return byAge === undefined || byNumber === undefined ? (byAge ?? byNumber) : Math.max(byAge, byNumber);
}

async function sweep(engine: Engine, before: number): Promise<{ deleted: number; heldUp: number }> {
  const { storage, writer } = engine;
  const total = { deleted: 0, heldUp: 0 };
  let page: ExpiredPage | undefined;
  do {
    if (!engine.isOpen) break;
    const began = performance.now();
    page = await storage.deletions.expired({ appName: writer.appName, before, after: page?.next, limit: pageSize });
    for (let i = 0; i < page.roots.length && engine.isOpen; i += batchSize) {
      const workflowIds = page.roots.slice(i, i + batchSize);
      try {
        total.deleted += await storage.deletions.removeExpired({ workflowIds, before });
      } catch (error) {
        // The rest need not wait for whoever holds on to one of these.
        if (storage.classify(error) !== 'held-up') throw error;
        total.heldUp += workflowIds.length;
      }
    }
    await delay(Math.min(1_000, performance.now() - began), undefined, { ref: false });
  } while (page.next);
  return total;
}
