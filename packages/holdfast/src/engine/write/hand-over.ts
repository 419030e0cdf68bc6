import { describeError } from '../../model/errors.js';
import { internalQueue } from '../../model/queues.js';
import type { OwnedWorkflow } from '../../storage/contract/storage.js';
import type { Engine } from '../engine.js';
import type { Execution } from '../execution/execution.js';
import { Backoff } from './backoff.js';
import type { Checkpoints } from './checkpoints.js';

type HandOverEngine = Pick<Engine, 'storage' | 'logger' | 'clock' | 'news'>;

/** Number of workflows that one statement hands over. */
const pageSize = 5_000;

/**
 * Resolves when all writes have settled, and the attempts of steps that the shutdown interrupts are given back.
 * Attempts whose start was still being written are given back too.
 */
export async function flushed(checkpoints: Checkpoints, unfinished: readonly Execution[]): Promise<void> {
  await checkpoints.idle();
  // Code that waited for one of these writes runs before the end of this event loop turn.
  await new Promise((resolve) => setImmediate(resolve));
  for (const execution of unfinished) execution.attemptsIfUsed?.giveBack();
  await checkpoints.idle();
}

/** True if the execution only waits, and its wait ends after this instant. */
export function waitsBeyond(execution: Execution, until: number): boolean {
  const idleUntil = execution.idleUntil();
  return idleUntil !== undefined && idleUntil > until;
}

/**
 * Puts unfinished workflows back on a queue. Other processes take them at once, without finding this process dead
 * first.
 */
export async function handOver(engine: HandOverEngine, owned: readonly OwnedWorkflow[], maxMs: number): Promise<void> {
  for (let from = 0; from < owned.length; from += pageSize) {
    const page = owned.slice(from, from + pageSize).map(({ workflowId, owner }) => ({ workflowId, owner }));
    await release(engine, page, maxMs);
  }
}

/** Retries for `maxMs`. Workflows that stay behind wait until other processes presume this executor dead. */
async function release(engine: HandOverEngine, owned: readonly OwnedWorkflow[], maxMs: number): Promise<void> {
  const { storage, logger, clock, news } = engine;
  const backoff = new Backoff('Handing over unfinished workflows', logger);
  const until = performance.now() + maxMs;
  for (let passOverLocked = false; ; ) {
    try {
      await storage.workflows.release({ owned, queueName: internalQueue, now: clock.now(), passOverLocked });
      news.announceToOthers('queues');
      return;
    } catch (error) {
      const failure = storage.classify(error);
      // A row that another session keeps locked stays behind. The other rows get one more attempt, even after the time
      // limit.
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
