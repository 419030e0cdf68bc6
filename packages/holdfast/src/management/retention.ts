import { setTimeout as delay } from 'node:timers/promises';
import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import { describeError } from '../model/errors.js';
import type { RetentionSettings } from '../model/retention.js';
import type { ExpiredPage } from '../storage/deletions.js';
import type { Storage } from '../storage/storage.js';

/** Rows that one statement looks at, and workflows that one statement deletes at most, with those below them. */
const pageSize = 500;
const batchSize = 50;

/** A statement that took longer is followed by smaller ones: SQLite stands still meanwhile, and Postgres gives up at last. */
const slowMs = 200;

/**
 * What ended later than this long ago stays in any case. Its ID is what tells a late one that it was run: a process that
 * comes to fire the same tick, or one that repeats a start to which it got no answer. Nor does anything go whose start
 * still counts against the rate limit of a queue.
 */
const youngestMs = 60_000;

/** So many that cannot be deleted are passed over. Where there are more, it is not their size. */
const mostStuck = 20;

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
    const { deleted, heldUp, stuck } = await sweep(engine, before);
    if (deleted > 0)
      logger.info(`Retention: ${deleted} workflows that ended before ${new Date(before).toISOString()} were deleted.`);
    if (heldUp > 0)
      logger.warn(`Retention: ${heldUp} workflows are locked by somebody, and are looked at again next time.`);
    if (stuck.length > 0)
      logger.warn(
        `Retention: ${stuck.join(', ')} could not be deleted, each with all that it has started, and others were. Of one ` +
          'that has started too much for one statement, delete the children first, some at a time.',
      );
  };
  return new Loop({ name: 'Retention', everyMs, clock, logger, runOnce });
}

/** Up to when a workflow must have ended to be deleted: by its age, or because enough have ended since. */
async function cutoff({ storage, clock, writer }: Engine, settings: RetentionSettings): Promise<number | undefined> {
  const { afterMs, keep } = settings;
  const byAge = afterMs === null ? undefined : clock.now() - afterMs;
  const byNumber = keep === null ? undefined : await storage.deletions.cutoff({ appName: writer.appName, keep });
  if (byAge === undefined && byNumber === undefined) return undefined;
  const youngest = Math.max(youngestMs, await longestRatePeriod(storage));
  return Math.min(clock.now() - youngest, Math.max(byAge ?? byNumber ?? 0, byNumber ?? 0));
}

async function longestRatePeriod(storage: Storage): Promise<number> {
  const limits = (await storage.queues.list()).flatMap(({ settings }) => [settings.limits, settings.partition]);
  return Math.max(0, ...limits.map((each) => each?.rateLimit?.perMs ?? 0));
}

interface Swept {
  deleted: number;
  heldUp: number;
  /** The first of them with what they failed by. */
  stuck: string[];
}

async function sweep(engine: Engine, before: number): Promise<Swept> {
  const { storage, writer } = engine;
  const total: Swept = { deleted: 0, heldUp: 0, stuck: [] };
  const remove = remover(engine, before, total);
  let page: ExpiredPage | undefined;
  do {
    if (!engine.isOpen) break;
    const began = performance.now();
    page = await storage.deletions.expired({ appName: writer.appName, before, after: page?.next, limit: pageSize });
    await remove(page.roots);
    await delay(Math.min(1_000, performance.now() - began), undefined, { ref: false });
  } while (page.next);
  return total;
}

/** Deletes so many at a time as take no long time. One that cannot be deleted keeps no others, now or the next time. */
function remover(engine: Engine, before: number, total: Swept) {
  const { storage } = engine;
  let size = batchSize;
  return async (roots: readonly string[]): Promise<void> => {
    for (let i = 0; i < roots.length && engine.isOpen; ) {
      const workflowIds = roots.slice(i, i + size);
      const began = performance.now();
      try {
        total.deleted += await storage.deletions.removeExpired({ workflowIds, before });
      } catch (error) {
        const failure = storage.classify(error);
        if (failure === 'lost' || failure === 'unusable' || total.stuck.length === mostStuck) throw error;
        if (failure === 'held-up') total.heldUp += workflowIds.length;
        else if (workflowIds.length > 1) {
          // One by one, because the next that fails is the one.
          size = 1;
          continue;
        } else total.stuck.push(`"${workflowIds[0]}" (${describeError(error)})`);
      }
      i += workflowIds.length;
      size = performance.now() - began > slowMs ? Math.ceil(size / 4) : Math.min(batchSize, size * 2);
    }
  };
}
