import { describeError } from '../../model/errors.js';
import { internalQueue } from '../../model/queues.js';
import type { OwnedWorkflow } from '../../storage/contract/storage.js';
import type { Engine } from '../engine.js';
import type { Execution } from '../execution/execution.js';
import { Backoff } from './backoff.js';
import type { Checkpoints } from './checkpoints.js';

type Leaving = Pick<Engine, 'storage' | 'logger' | 'clock' | 'news'>;

/** How many workflows are handed over by one statement. */
const pageSize = 5_000;

/**
 * Resolves when every write so far has settled, and attempts of steps that are interrupted here are given back: also those whose beginning
 * was being written.
 */
export async function flushed(checkpoints: Checkpoints, unfinished: readonly Execution[]): Promise<void> {
  await checkpoints.idle();
  // Whoever waited for one of these writes has heard of it by then.
  await new Promise((resolve) => setImmediate(resolve));
  for (const execution of unfinished) execution.attemptsAsked?.giveBack();
  await checkpoints.idle();
}

/** Whether it has nothing to do but wait until after that instant. */
export function waitsBeyond(execution: Execution, until: number): boolean {
  const idleUntil = execution.idleUntil();
  return idleUntil !== undefined && idleUntil > until;
}

/** Gives unfinished workflows back, so that other processes take them over without finding this one dead first. */
export async function handOver(engine: Leaving, owned: readonly OwnedWorkflow[], longestMs: number): Promise<void> {
  for (let from = 0; from < owned.length; from += pageSize) {
    const page = owned.slice(from, from + pageSize).map(({ workflowId, owner }) => ({ workflowId, owner }));
    await release(engine, page, longestMs);
  }
}

/** Tried for a while: work that stays behind waits until someone knows that this executor is dead. */
async function release(engine: Leaving, owned: readonly OwnedWorkflow[], longestMs: number): Promise<void> {
  const { storage, logger, clock, news } = engine;
  const backoff = new Backoff('Handing over unfinished workflows', logger);
  const until = performance.now() + longestMs;
  for (let passOverLocked = false; ; ) {
    try {
      await storage.workflows.release({ owned, queueName: internalQueue, now: clock.now(), passOverLocked });
      news.announceToOthers('queues');
      return;
    } catch (error) {
      const failure = storage.classify(error);
      // A row that someone does not let go of stays behind, and the rest goes on, however late it is.
      const isFirstLock = failure === 'locked' && !passOverLocked;
      if (isFirstLock) passOverLocked = true;
      else if (failure === 'refused' || failure === 'unusable' || performance.now() > until) {
        logger.warn(`Unfinished workflows could not be handed over: ${describeError(error)}`);
        return;
      }
      await backoff.pause(error);
    }
  }
}
