import type { Timer } from '../../model/clock.js';
import { describeError } from '../../model/errors.js';
import type { OwnedWorkflow } from '../../storage/contract/storage.js';
import { reload } from '../claims.js';
import type { Engine } from '../engine.js';
import type { Execution, SuspendableWait } from '../execution/execution.js';
import type { Frontier } from '../execution/frontier.js';
import { runOutsideScope } from '../execution/scope-storage.js';
import { timeoutReason } from '../execution/workflow-errors.js';
import { maxBusy } from '../queue/slots-in-use.js';
import type { Topic } from '../wait/news.js';
import { DeadlineHeap } from './deadline-heap.js';

/** Number of suspended workflows that one statement reads. */
const pageSize = 200;

/**
 * `busy`: delay before the next page if too many executions are busy. A replay is work too, but the busy executions
 * may wait for a suspended workflow, so the page is only delayed. `failure`: delay before the retry of a workflow that
 * could not be read.
 */
const pauseMs = { busy: 200, failure: 5_000 };

/** Maximum number of remembered workflows that made a late call before they went back to their queue. */
const maxLateCallers = 1_000;

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

const noStops: readonly never[] = [];
const noQueue = { queueName: null, partition: null };

/**
 * The suspended workflows of this process. They only wait, are PENDING, and still belong to this process. When a wait
 * may have ended, this process reads the history of the workflow and runs it again. This is no new attempt and no
 * write: the owner token stays the same. A process that has taken the workflow over meanwhile has fenced this token.
 *
 * **Invariant:** this class watches a wait before the execution stops watching it, and its first query for the result
 * starts after that. Therefore one of the two sees every result that arrives in between.
 *
 * On a queue with `whileWaiting: 'release'` a suspended workflow frees its slot. Its row is marked, and processes that
 * count the running workflows of the queue do not count it. It continues through the queue, like work that was handed
 * over.
 *
 * **Invariant:** only a claim removes the mark. Otherwise the number of workflows that count for the limits of a queue
 * could grow after a process has counted them, and before it claims.
 */
export class SuspendedWorkflows {
  private readonly workflows = new Map<string, SuspendedWorkflow>();
  private readonly deadlines = new DeadlineHeap<SuspendedWorkflow>();
  private readonly due = new Set<SuspendedWorkflow>();
  private readonly lateCallers = new Set<string>();
  private reloading = false;
  private closed = false;
  private timer: Timer | undefined;
  private timerAt = Number.POSITIVE_INFINITY;

  constructor(private readonly engine: Engine) {}

  get size(): number {
    return this.workflows.size;
  }

  /** True if no workflow is about to continue. */
  get isIdle(): boolean {
    return this.due.size === 0 && !this.reloading;
  }

  /** The instant at which the next workflow continues; negative infinity if one is about to continue. */
  get nextAt(): number {
    if (!this.isIdle) return Number.NEGATIVE_INFINITY;
    this.dropGone();
    return this.deadlines.first?.at ?? Number.POSITIVE_INFINITY;
  }

  all(): readonly SuspendedWorkflow[] {
    return [...this.workflows.values()];
  }

  of(workflowId: string): SuspendedWorkflow | undefined {
    return this.workflows.get(workflowId);
  }

  /** Removes and returns all suspended workflows. The caller hands them over. */
  close(): OwnedWorkflow[] {
    this.closed = true;
    this.timer?.cancel();
    this.due.clear();
    const all = [...this.workflows.values()];
    for (const suspended of all) this.take(suspended.workflowId);
    return all;
  }

  /** Adds a suspended workflow in place of an execution. The caller then drops the execution. */
  add(execution: Execution, waits: readonly SuspendableWait[]): SuspendedWorkflow {
    let at = execution.claim.deadlineAt ?? Number.POSITIVE_INFINITY;
    for (const { until } of waits) at = Math.min(at, until ?? at);
    const suspended = new SuspendedWorkflow(execution, at);
    this.workflows.set(suspended.workflowId, suspended);
    const wake = createWaker(suspended, (due) => this.wake(due));
    const stops = waits.flatMap((wait) => wait.watchWhileSuspended(wake) ?? []);
    if (stops.length > 0) suspended.stops = stops;
    if (at < Number.POSITIVE_INFINITY) this.deadlines.add(suspended);
    this.setTimer();
    const { queueCache } = this.engine;
    if (queueCache.releasesSlots(suspended.claim.queueName)) void runOutsideScope(() => this.freeSlot(suspended));
    return suspended;
  }

  /** Returns the function to call when suspended code makes another durable call. */
  lateCallHandler(suspended: SuspendedWorkflow): () => void {
    return createWaker(suspended, (due) => {
      due.hadLateCall = true;
      this.wake(due);
    });
  }

  /** True if the code made a late call before the workflow went back to its queue. The next execution asks once. */
  hadLateCall(workflowId: string): boolean {
    return this.lateCallers.delete(workflowId);
  }

  /** Removes a workflow because it runs again, has another owner, or has ended. */
  take(workflowId: string): SuspendedWorkflow | undefined {
    const suspended = this.workflows.get(workflowId);
    if (!suspended) return undefined;
    this.workflows.delete(workflowId);
    this.due.delete(suspended);
    for (const stop of suspended.stops) stop();
    // Removed workflows stay in the heap until they are the majority.
    if (this.workflows.size === 0 || this.deadlines.size > 2 * this.workflows.size + 1_000) {
      this.deadlines.filter((each) => this.isHere(each));
      this.setTimer();
    }
    return suspended;
  }

  private isHere(suspended: SuspendedWorkflow): boolean {
    return this.workflows.get(suspended.workflowId) === suspended;
  }

  private dropGone(): void {
    for (let first = this.deadlines.first; first && !this.isHere(first); first = this.deadlines.first)
      this.deadlines.takeFirst();
  }

  private wake(suspended: SuspendedWorkflow): void {
    if (this.closed || !this.isHere(suspended)) return;
    if (suspended.slot === 'leaving') suspended.isDue = true;
    if (suspended.slot === 'free') runOutsideScope(() => this.returnToQueue(suspended));
    if (suspended.slot !== 'held') return;
    this.due.add(suspended);
    if (this.reloading) return;
    this.reloading = true;
    // One statement reads all workflows that become due in this event loop turn.
    runOutsideScope(() => setImmediate(() => void this.reloadDue()));
  }

  private async freeSlot(suspended: SuspendedWorkflow): Promise<void> {
    const { checkpoints, slotsInUse, logger } = this.engine;
    const { workflowId, owner, frontier } = suspended;
    suspended.slot = 'leaving';
    const written = await checkpoints.markSuspended({ workflowId, owner, ...frontier.after }).catch((error) => {
      logger.warn(`Workflow "${workflowId}" keeps its slot of its queue while it waits: ${describeError(error)}`);
      return undefined;
    });
    if (typeof written === 'object') return this.engine.executions.supersede(workflowId, owner, written);
    suspended.slot = written === undefined ? 'held' : 'free';
    if (suspended.slot === 'free' && this.isHere(suspended)) slotsInUse.leave(suspended);
    if (suspended.isDue) this.wake(suspended);
  }

  /** Puts a workflow without a slot back on its queue, or cancels it if its deadline has passed. */
  private returnToQueue(suspended: SuspendedWorkflow): void {
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
      if (this.isHere(suspended)) this.drop(suspended);
      if (!isOver) news.announce(`queue:${claim.queueName}`);
    };
    departure.then(onDeparture, (error) => {
      suspended.slot = 'free';
      this.retryLater(suspended, error);
    });
  }

  private rememberLateCall(workflowId: string): void {
    this.lateCallers.add(workflowId);
    const [oldest] = this.lateCallers;
    if (oldest !== undefined && this.lateCallers.size > maxLateCallers) this.lateCallers.delete(oldest);
  }

  private setTimer(): void {
    const at = this.deadlines.first?.at ?? Number.POSITIVE_INFINITY;
    if (this.closed || at === this.timerAt) return;
    this.timer?.cancel();
    this.timerAt = at;
    if (at < Number.POSITIVE_INFINITY)
      this.timer = runOutsideScope(() => this.engine.clock.at(at, () => this.wakeDue()));
  }

  private wakeDue(): void {
    this.timerAt = Number.POSITIVE_INFINITY;
    const now = this.engine.clock.now();
    for (let first = this.deadlines.first; first && first.at <= now; first = this.deadlines.first) {
      this.deadlines.takeFirst();
      this.wake(first);
    }
    this.setTimer();
  }

  private async reloadDue(): Promise<void> {
    while (this.due.size > 0 && !this.closed) {
      if (this.engine.executions.busyCount > maxBusy) await new Promise((resolve) => setTimeout(resolve, pauseMs.busy));
      const page = [...this.due].slice(0, pageSize);
      await this.reloadPage(page);
    }
    this.reloading = false;
  }

  private async reloadPage(page: readonly SuspendedWorkflow[]): Promise<void> {
    const paged = new Set(page);
    const isAwaited = (workflowId: string): boolean => {
      const suspended = this.workflows.get(workflowId);
      return suspended !== undefined && paged.has(suspended);
    };
    const unreadable = new Set<SuspendedWorkflow>();
    const failed = (suspended: SuspendedWorkflow, error: unknown): void => {
      unreadable.add(suspended);
      this.retryLater(suspended, error);
    };
    await reload(this.engine, page, { isAwaited, failed });
    // Workflows that were neither loaded nor failed belong to another owner by now.
    for (const suspended of page) if (this.isHere(suspended) && !unreadable.has(suspended)) this.drop(suspended);
  }

  private retryLater(suspended: SuspendedWorkflow, error: unknown): void {
    this.due.delete(suspended);
    if (!this.isHere(suspended) || this.closed) return;
    const { clock, logger } = this.engine;
    const { workflowId } = suspended;
    logger.error(`Workflow "${workflowId}" is due but cannot continue, and is tried again: ${describeError(error)}`);
    clock.at(clock.now() + pauseMs.failure, () => this.wake(suspended));
  }

  private drop(suspended: SuspendedWorkflow): void {
    this.take(suspended.workflowId);
    this.engine.slotsInUse.leave(suspended);
    this.engine.cancellations.noteEnded(suspended);
    this.engine.completionWaiters.watchElsewhere(suspended.workflowId);
  }
}

/** A separate function, so that the closure references no other objects and they can be garbage collected. */
function createWaker(suspended: SuspendedWorkflow, wake: (suspended: SuspendedWorkflow) => void): () => void {
  return () => wake(suspended);
}
