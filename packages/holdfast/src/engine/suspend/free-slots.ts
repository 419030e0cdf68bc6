import { describeError } from '../../model/errors.js';
import type { Engine } from '../engine.js';
import { timeoutReason } from '../execution/workflow-errors.js';
import type { SuspendedWorkflow } from './suspended-workflow.js';

/** Maximum number of remembered workflows that made a late call before they went back to their queue. */
const maxLateCallers = 1_000;

/** The set of suspended workflows of this process (suspended.ts). */
interface SuspendedSet {
  isHere(suspended: SuspendedWorkflow): boolean;
  wake(suspended: SuspendedWorkflow): void;
  drop(suspended: SuspendedWorkflow): void;
  retryLater(suspended: SuspendedWorkflow, error: unknown): void;
}

/**
 * On a queue with `whileWaiting: 'release'` a suspended workflow frees its slot. Its row is marked, and processes that
 * count the running workflows of the queue do not count it. It continues through the queue, like work that was handed
 * over.
 *
 * **Invariant:** only a claim removes the mark. Otherwise the number of workflows that count for the limits of a queue
 * could grow after a process has counted them, and before it claims.
 */
export class FreeSlots {
  private readonly lateCallers = new Set<string>();

  constructor(
    private readonly engine: Engine,
    private readonly workflows: SuspendedSet,
  ) {}

  /** Marks a workflow as suspended, and then frees its slot. If the mark cannot be written, it keeps its slot. */
  async freeSlot(suspended: SuspendedWorkflow): Promise<void> {
    const { checkpoints, slotsInUse, logger } = this.engine;
    const { workflowId, owner, frontier } = suspended;
    suspended.slot = 'leaving';
    const written = await checkpoints.markSuspended({ workflowId, owner, ...frontier.after }).catch((error) => {
      logger.warn(`Workflow "${workflowId}" keeps its queue slot while it waits: ${describeError(error)}`);
      return undefined;
    });
    if (typeof written === 'object') return this.engine.executions.supersede(workflowId, owner, written);
    suspended.slot = written === undefined ? 'held' : 'free';
    if (suspended.slot === 'free' && this.workflows.isHere(suspended)) slotsInUse.leave(suspended);
    if (suspended.isDue) this.workflows.wake(suspended);
  }

  /** Puts a workflow without a slot back on its queue, or cancels it if its deadline has passed. */
  returnToQueue(suspended: SuspendedWorkflow): void {
    const { checkpoints, clock, news } = this.engine;
    const { workflowId, owner, deadlineAt, claim } = suspended;
    suspended.slot = 'returning';
    if (suspended.hadLateCall) this.rememberLateCall(workflowId);
    const at = clock.now();
    const isOver = deadlineAt !== null && deadlineAt <= at;
    const departure = isOver
      ? this.engine.cancellations.cancel([workflowId], timeoutReason())
      : checkpoints.returnToQueue({ workflowId, owner, at });
    const onDeparture = (): void => {
      if (this.workflows.isHere(suspended)) this.workflows.drop(suspended);
      if (!isOver) news.announce(`queue:${claim.queueName}`);
    };
    departure.then(onDeparture, (error) => {
      suspended.slot = 'free';
      this.workflows.retryLater(suspended, error);
    });
  }

  /** True if the code made a late call before the workflow went back to its queue. The next execution asks once. */
  hadLateCall(workflowId: string): boolean {
    return this.lateCallers.delete(workflowId);
  }

  private rememberLateCall(workflowId: string): void {
    this.lateCallers.add(workflowId);
    const [oldest] = this.lateCallers;
    if (oldest !== undefined && this.lateCallers.size > maxLateCallers) this.lateCallers.delete(oldest);
  }
}
