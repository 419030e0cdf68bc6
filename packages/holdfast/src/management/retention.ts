import { setTimeout as delay } from 'node:timers/promises';
import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import { describeError } from '../model/errors.js';
import type { RetentionSettings } from '../model/retention.js';
import type { ExpiredPage } from '../storage/contract/deletions.js';
import type { Storage } from '../storage/contract/storage.js';

/** How many rows one statement reads. */
const pageSize = 2_000;
/** How many workflows the first statement deletes, each with its descendants. */
const firstBatchSize = 50;

/**
 * The maximum number of workflows that one statement deletes. Each statement has a fixed cost, so large statements
 * delete several times as many workflows in the same time. On SQLite, the whole process waits while a statement runs.
 */
const maxOnSqlite = 50;
const maxElsewhere = 1_000;

/**
 * After a statement that took longer than `slowMs`, the next ones are smaller: other writes wait for its connection,
 * and a statement that takes too long times out on Postgres. After a statement quicker than `quickMs`, the next ones
 * are larger.
 */
const slowMs = 200;
const quickMs = 100;

/**
 * Retention pauses for this fraction of the time that its statements took, so that other work can use the database.
 */
const pauseFraction = 0.25;

/**
 * Workflows that ended within this time are always kept, because late calls find them by ID: a process that fires the
 * same tick late, or a process that repeats a start whose answer was lost. Workflows whose start still counts against
 * the rate limit of a queue are kept too.
 */
const minAgeMs = 60_000;

/** How many workflows that cannot be deleted one run skips. If there are more, their size is not the cause. */
const maxStuck = 20;

/**
 * Deletes workflows that ended long ago, or that exceed the number of workflows to keep. Every process that is
 * launched with `retention` does so, without a leader: a workflow that one process has deleted is not found by the
 * others. Each process begins at a random place of a page. Processes that run at the same moment therefore delete
 * different workflows, and seldom wait for each other's locks.
 */
export function retention(engine: Engine, settings: RetentionSettings): Loop {
  const { clock, logger } = engine;
  // The interval has a random part, so that processes do not run at the same moment.
  const everyMs = (): number => settings.everyMs * (0.9 + Math.random() * 0.2);
  const runOnce = async (): Promise<void> => {
    const before = await cutoff(engine, settings);
    if (before === undefined) return;
    const { deleted, locked, stuck } = await sweep(engine, before);
    if (deleted > 0)
      logger.info(`Retention: ${deleted} workflows that ended before ${new Date(before).toISOString()} were deleted.`);
    if (locked > 0)
      logger.warn(`Retention: ${locked} workflows are locked by other sessions. The next run tries to delete them.`);
    if (stuck.length > 0)
      logger.warn(
        `Retention: ${stuck.join(', ')} could not be deleted with their children. Other workflows were deleted. If ` +
          'a workflow has too many children for one statement, delete the children first, some at a time.',
      );
  };
  return new Loop({ name: 'Retention', everyMs, clock, logger, runOnce });
}

/**
 * Returns an instant: workflows that ended before it may be deleted, because of their age or because of the number to
 * keep.
 */
async function cutoff({ storage, clock, writer }: Engine, settings: RetentionSettings): Promise<number | undefined> {
  const { afterMs, keep } = settings;
  const byAge = afterMs === null ? undefined : clock.now() - afterMs;
  const byNumber = keep === null ? undefined : await storage.deletions.cutoff({ appName: writer.appName, keep });
  if (byAge === undefined && byNumber === undefined) return undefined;
  const minAge = Math.max(minAgeMs, await longestRatePeriod(storage));
  return Math.min(clock.now() - minAge, Math.max(byAge ?? byNumber ?? 0, byNumber ?? 0));
}

async function longestRatePeriod(storage: Storage): Promise<number> {
  const limits = (await storage.queues.list()).flatMap(({ settings }) => [settings.limits, settings.partition]);
  return Math.max(0, ...limits.map((each) => each?.rateLimit?.perMs ?? 0));
}

interface Swept {
  deleted: number;
  locked: number;
  /** The IDs of workflows that could not be deleted, each with the error. */
  stuck: string[];
}

async function sweep(engine: Engine, before: number): Promise<Swept> {
  const { storage, writer } = engine;
  const total: Swept = { deleted: 0, locked: 0, stuck: [] };
  const remove = remover(engine, before, total);
  let page: ExpiredPage | undefined;
  do {
    if (!engine.lifecycle.isOpen) break;
    const began = performance.now();
    page = await storage.deletions.expired({ appName: writer.appName, before, after: page?.next, limit: pageSize });
    await remove(page.roots);
    await delay(Math.min(1_000, pauseFraction * (performance.now() - began)), undefined, { ref: false });
  } while (page.next);
  return total;
}

/**
 * Returns a function that deletes workflows in batches, whose size follows the duration of each statement. A workflow
 * that cannot be deleted does not prevent the deletion of others. Several batches run at the same time if the
 * database has several write lanes: the trees of different roots have no workflow in common.
 */
function remover(engine: Engine, before: number, total: Swept) {
  const { storage } = engine;
  const maxSize = storage.writeLanes > 1 ? maxElsewhere : maxOnSqlite;
  let size = firstBatchSize;
  const removeSome = async (remaining: string[]): Promise<void> => {
    const workflowIds = remaining.splice(0, size);
    const began = performance.now();
    try {
      total.deleted += await storage.deletions.removeExpired({ workflowIds, before });
    } catch (error) {
      const failure = storage.classify(error);
      if (failure === 'lost' || total.stuck.length === maxStuck) throw error;
      if (failure === 'locked') total.locked += workflowIds.length;
      else if (workflowIds.length === 1) total.stuck.push(`"${workflowIds[0]}" (${describeError(error)})`);
      else {
        // One workflow of the batch cannot be deleted. Batches with a single workflow show which one.
        remaining.unshift(...workflowIds);
        size = 1;
        return;
      }
    }
    const took = performance.now() - began;
    if (took > slowMs) size = Math.ceil(size / 4);
    else if (took < quickMs) size = Math.min(maxSize, size * 2);
  };
  return async (roots: readonly string[]): Promise<void> => {
    const start = Math.floor(Math.random() * roots.length);
    const remaining = [...roots.slice(start), ...roots.slice(0, start)];
    const work = async (): Promise<void> => {
      try {
        while (remaining.length > 0 && engine.lifecycle.isOpen) await removeSome(remaining);
      } finally {
        // After an error in one lane, the other lane stops too.
        remaining.length = 0;
      }
    };
    // Waits for all lanes even if one fails, so that no statement is still under way afterwards.
    const done = await Promise.allSettled(Array.from({ length: storage.writeLanes }, work));
    for (const each of done) if (each.status === 'rejected') throw each.reason;
  };
}
