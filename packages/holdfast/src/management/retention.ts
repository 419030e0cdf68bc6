import { setTimeout as delay } from 'node:timers/promises';
import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import { describeError } from '../model/errors.js';
import type { RetentionSettings } from '../model/retention.js';
import type { ExpiredPage } from '../storage/contract/deletions.js';
import type { Storage } from '../storage/contract/storage.js';

/** Rows that one statement looks at, and workflows that the first statement deletes, with those below them. */
const pageSize = 2_000;
const batchSize = 50;

/**
 * Each statement has a cost of its own, so that larger ones delete several times as many workflows in the same time. On SQLite the
 * process stands still while a statement runs.
 */
const maxOnSqlite = 50;
const maxElsewhere = 1_000;

/**
 * A statement that took longer than `slowMs` is followed by smaller ones: others wait for its connection, and Postgres gives it up
 * at last. One that was quicker than `quickMs` is followed by larger ones.
 */
const slowMs = 200;
const quickMs = 100;

/** Deleting rests for this part of the time that it works, so that others get their turn at the database. */
const restPart = 0.25;

/**
 * What ended later than this long ago stays in any case. Its ID is what tells a late one that it was run: a process that
 * comes to fire the same tick, or one that repeats a start to which it got no answer. Nor does anything go whose start
 * still counts against the rate limit of a queue.
 */
const youngestMs = 60_000;

/** So many that cannot be deleted are passed over. Where there are more, it is not their size. */
const maxStuck = 20;

/**
 * Deletes workflows that ended long ago, or of which there are too many. Every process of the app that is told to does it,
 * without a leader: what one has deleted, another does not find. Each begins anywhere in a page, so that several that
 * begin at the same moment delete different workflows, and seldom wait for each other's locks.
 */
export function retention(engine: Engine, settings: RetentionSettings): Loop {
  const { clock, logger } = engine;
  // Not all processes at the same moment.
  const everyMs = (): number => settings.everyMs * (0.9 + Math.random() * 0.2);
  const runOnce = async (): Promise<void> => {
    const before = await cutoff(engine, settings);
    if (before === undefined) return;
    const { deleted, locked, stuck } = await sweep(engine, before);
    if (deleted > 0)
      logger.info(`Retention: ${deleted} workflows that ended before ${new Date(before).toISOString()} were deleted.`);
    if (locked > 0)
      logger.warn(`Retention: ${locked} workflows are locked by somebody, and are looked at again next time.`);
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
  locked: number;
  /** The first of them with what they failed by. */
  stuck: string[];
}

async function sweep(engine: Engine, before: number): Promise<Swept> {
  const { storage, writer } = engine;
  const total: Swept = { deleted: 0, locked: 0, stuck: [] };
  const remove = remover(engine, before, total);
  let page: ExpiredPage | undefined;
  do {
    if (!engine.isOpen) break;
    const began = performance.now();
    page = await storage.deletions.expired({ appName: writer.appName, before, after: page?.next, limit: pageSize });
    await remove(page.roots);
    await delay(Math.min(1_000, restPart * (performance.now() - began)), undefined, { ref: false });
  } while (page.next);
  return total;
}

/**
 * Deletes so many at a time as take no long time. One that cannot be deleted keeps no others, now or the next time. Where
 * several writers can work at the same time, two do: trees of different roots have no workflow in common.
 */
function remover(engine: Engine, before: number, total: Swept) {
  const { storage } = engine;
  const most = storage.writeLanes > 1 ? maxElsewhere : maxOnSqlite;
  let size = batchSize;
  const removeSome = async (left: string[]): Promise<void> => {
    const workflowIds = left.splice(0, size);
    const began = performance.now();
    try {
      total.deleted += await storage.deletions.removeExpired({ workflowIds, before });
    } catch (error) {
      const failure = storage.classify(error);
      if (failure === 'lost' || total.stuck.length === maxStuck) throw error;
      if (failure === 'locked') total.locked += workflowIds.length;
      else if (workflowIds.length === 1) total.stuck.push(`"${workflowIds[0]}" (${describeError(error)})`);
      else {
        // One by one, because the next that fails is the one.
        left.unshift(...workflowIds);
        size = 1;
        return;
      }
    }
    const took = performance.now() - began;
    if (took > slowMs) size = Math.ceil(size / 4);
    else if (took < quickMs) size = Math.min(most, size * 2);
  };
  return async (roots: readonly string[]): Promise<void> => {
    const start = Math.floor(Math.random() * roots.length);
    const left = [...roots.slice(start), ...roots.slice(0, start)];
    const work = async (): Promise<void> => {
      try {
        while (left.length > 0 && engine.isOpen) await removeSome(left);
      } finally {
        // After an error, for the other one too.
        left.length = 0;
      }
    };
    // None is left alone with a statement under way when another one fails.
    const done = await Promise.allSettled(Array.from({ length: storage.writeLanes }, work));
    for (const each of done) if (each.status === 'rejected') throw each.reason;
  };
}
