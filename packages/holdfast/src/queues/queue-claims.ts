import type { Engine } from '../engine/engine.js';
import type { ClaimedRecord, Dequeued, DequeueParams, Portion } from '../storage/contract/storage.js';
import type { WorkKind } from './page.js';

/** The longest pause after claims that failed because other processes were claiming from the same queue. */
const maxConflictPauseMs = 32;

/** The terms of a claim that depend on the settings of the queue. */
export type ClaimTerms = Pick<DequeueParams, 'lockVersion' | 'exclusive' | 'firstCome'>;

/**
 * Claims workflows from one queue, and counts the consecutive claims that failed because other processes claimed first.
 */
export class QueueClaims {
  private conflicts = 0;

  constructor(
    private readonly engine: Engine,
    private readonly queueName: string,
  ) {}

  /** `held` is false if another process claimed after the queue was read. The work on the queue is then unknown. */
  async claim(
    kind: WorkKind,
    terms: ClaimTerms,
    portions: readonly Portion[],
    { rateLimited }: { readonly rateLimited: boolean },
  ): Promise<Dequeued> {
    const { claims, storage, slotsInUse } = this.engine;
    const limit = portions.reduce((sum, { n }) => sum + n, 0);
    const byPartition = portions.some(({ partition }) => partition !== null);
    const common = { queueName: this.queueName, portions, ...terms, byPartition, rateLimited };
    let [held, mixed] = [true, false];
    const claiming = claims.claimAndRun(limit, async (claim) => {
      const dequeued = await storage.queues.dequeue({ ...claim, ...common, suspects: kind === 'suspect' });
      ({ held, mixed } = dequeued);
      return dequeued.claimed;
    });
    const claimed = await claiming.finally(slotsInUse.capacity.reserve(limit));
    if (held) this.conflicts = 0;
    return { claimed, held, mixed };
  }

  /** More conflicts in a row mean that more processes compete for the queue, so the random pause may be longer. */
  async pauseAfterConflict(): Promise<void> {
    await this.engine.claims.pause(Math.random() * Math.min(maxConflictPauseMs, 2 ** this.conflicts++));
  }

  /**
   * Returns true if all of the workflows run here. A workflow past its deadline is PENDING for a moment but never
   * runs.
   */
  allRun(claimed: readonly ClaimedRecord[]): boolean {
    const now = this.engine.clock.now();
    return claimed.every(({ status, deadlineAt }) => status !== 'PENDING' || deadlineAt === null || deadlineAt > now);
  }
}
