import type { Timer } from '../../model/clock.js';
import { describeError } from '../../model/errors.js';
import type { OwnedWorkflow } from '../../storage/contract/storage.js';
import { reload } from '../claims.js';
import type { Engine } from '../engine.js';
import type { Execution, SuspendableWait } from '../execution/execution.js';
import { runOutsideScope } from '../execution/scope-storage.js';
import { maxBusy } from '../queue/slots-in-use.js';
import { DeadlineHeap } from './deadline-heap.js';
import { FreeSlots } from './free-slots.js';
import { SuspendedWorkflow } from './suspended-workflow.js';

/** Number of suspended workflows that one statement reads. */
const pageSize = 200;

/**
 * `busy`: delay before the next page if too many executions are busy. A replay is work too, but the busy executions
 * may wait for a suspended workflow, so the page is only delayed. `failure`: delay before the retry of a workflow that
 * could not be read.
 */
const pauseMs = { busy: 200, failure: 5_000 };

/**
 * The suspended workflows of this process. They only wait, are PENDING, and still belong to this process. When a wait
 * may have ended, this process reads the history of the workflow and runs it again. The new run counts as no attempt
 * and needs no write: the owner token stays the same. A process that has taken the workflow over meanwhile has fenced
 * this token.
 *
 * **Invariant:** this class watches a wait before the execution stops watching it, and its first query for the result
 * starts after that. Therefore one of the two sees every result that arrives in between.
 */
export class SuspendedWorkflows {
  private readonly workflows = new Map<string, SuspendedWorkflow>();
  private readonly deadlines = new DeadlineHeap<SuspendedWorkflow>();
  private readonly due = new Set<SuspendedWorkflow>();
  private readonly freeSlots: FreeSlots;
  private reloading = false;
  private closed = false;
  private timer: Timer | undefined;
  private timerAt = Number.POSITIVE_INFINITY;

  constructor(private readonly engine: Engine) {
    this.freeSlots = new FreeSlots(engine, {
      isHere: (suspended) => this.isHere(suspended),
      wake: (suspended) => this.wake(suspended),
      drop: (suspended) => this.drop(suspended),
      retryLater: (suspended, error) => this.retryLater(suspended, error),
    });
  }

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
    if (queueCache.releasesSlots(suspended.claim.queueName))
      void runOutsideScope(() => this.freeSlots.freeSlot(suspended));
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
    return this.freeSlots.hadLateCall(workflowId);
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
    if (suspended.slot === 'free') runOutsideScope(() => this.freeSlots.returnToQueue(suspended));
    if (suspended.slot !== 'held') return;
    this.due.add(suspended);
    if (this.reloading) return;
    this.reloading = true;
    // One statement reads all workflows that become due in this event loop turn.
    runOutsideScope(() => setImmediate(() => void this.reloadDue()));
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
