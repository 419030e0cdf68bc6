import type { OwnedWorkflow } from '../../storage/contract/storage.js';
import type { Execution } from '../execution/execution.js';
import type { Frontier } from '../execution/frontier.js';
import type { Topic } from '../wait/news.js';

const noStops: readonly never[] = [];
const noQueue = { queueName: null, partition: null };

/** A workflow that this process owns but does not keep in memory. Only its position and its waits are left. */
export class SuspendedWorkflow implements OwnedWorkflow {
  readonly isSuspended = true;
  readonly workflowId: string;
  readonly owner: string;
  readonly claim: { readonly queueName: string | null; readonly partition: string | null };
  readonly isSuspect: boolean;
  readonly hadPredecessors: boolean;
  readonly announceAtEnd: Set<Topic> | undefined;
  /** The committed results that its next row must name. */
  readonly frontier: Frontier;
  readonly deadlineAt: number | null;
  /** Its slot of the queue: held, being freed (`leaving`), free, or free while the workflow goes back to its queue. */
  slot: 'held' | 'leaving' | 'free' | 'returning' = 'held';
  /** True if the workflow was woken while its slot was being freed. */
  isDue = false;
  /** True if the suspended code made another durable call. */
  hadLateCall = false;
  /** Functions that end the waits. */
  stops: readonly (() => void)[] = noStops;

  constructor(
    execution: Execution,
    /** The latest instant at which the workflow must continue. */
    readonly at: number,
  ) {
    const { workflowId, owner, queueName, partition, deadlineAt } = execution.claim;
    [this.workflowId, this.owner, this.deadlineAt] = [workflowId, owner, deadlineAt];
    this.claim = queueName === null ? noQueue : { queueName, partition };
    this.isSuspect = execution.isSuspect;
    this.hadPredecessors = execution.hadPredecessors;
    this.announceAtEnd = execution.announceAtEnd;
    this.frontier = execution.frontier;
  }

  idleUntil(): number {
    return this.at;
  }
}
