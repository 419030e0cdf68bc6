import type { HoldfastError } from '../model/errors.js';
import type { Ending, OwnedWorkflow } from '../storage/contract/storage.js';
import type { ClaimedWorkflow, Engine } from './engine.js';
import { Execution } from './execution/execution.js';
import { codecOf } from './execution/outcome.js';
import { runWorkflow } from './execution/run-workflow.js';
import { maxWaitingInMemory } from './suspend/evict-idle.js';
import { SuspendedWorkflows } from './suspend/suspended.js';
import type { SuspendedWorkflow } from './suspend/suspended-workflow.js';
import type { Superseded } from './write/confirm-writes.js';

/**
 * The workflows that run in this process: each is an execution in memory, or suspended. A workflow is here from its
 * claim until it ends or another owner has it.
 */
export class Executions {
  private readonly running = new Map<string, Execution>();
  private readonly suspended: SuspendedWorkflows;
  /** Workflows that were started or claimed during the shutdown, and never ran here. */
  private readonly unstarted: OwnedWorkflow[] = [];
  private readonly endWaiters = new Set<() => void>();

  constructor(private readonly engine: Engine) {
    this.suspended = new SuspendedWorkflows(engine);
  }

  /** Number of workflows that run here, in memory or suspended. */
  get size(): number {
    return this.running.size + this.suspended.size;
  }

  /** Number of executions that have something to do. Executions that only wait do not count. */
  get busyCount(): number {
    let busy = 0;
    for (const execution of this.running.values()) if (execution.idleUntil() === undefined) busy++;
    return busy;
  }

  get inMemory(): ReadonlyMap<string, Execution> {
    return this.running;
  }

  get allSuspended(): readonly SuspendedWorkflow[] {
    return this.suspended.all();
  }

  /** When the next suspended workflow is due. */
  get nextDueAt(): number {
    return this.suspended.nextAt;
  }

  /** True if no suspended workflow is on its way back into memory. */
  get isIdle(): boolean {
    return this.suspended.isIdle;
  }

  has(workflowId: string): boolean {
    return this.running.has(workflowId) || this.suspended.of(workflowId) !== undefined;
  }

  /** True if the workflow runs here under this owner token. */
  owns({ workflowId, owner }: OwnedWorkflow): boolean {
    const here = this.running.get(workflowId)?.claim ?? this.suspended.of(workflowId);
    return here?.owner === owner;
  }

  /** Runs a workflow that this process has just started, claimed or reloaded. */
  run(claimed: ClaimedWorkflow): void {
    const { workflowId, owner, deadlineAt } = claimed;
    const { clock, slotsInUse, cancellations, lifecycle, events } = this.engine;
    if (lifecycle.isClosed) {
      this.unstarted.push({ workflowId, owner });
      return;
    }
    const returning = this.replaceEarlier(claimed);
    if (cancellations.takeUnstarted({ workflowId, owner })) {
      this.informWaiters(workflowId);
      return;
    }
    if (deadlineAt !== null && deadlineAt <= clock.now()) {
      if (returning) slotsInUse.leave(returning);
      void cancellations.expireUnstarted(claimed);
      return;
    }
    const execution = this.create(claimed, returning);
    if (this.running.size > maxWaitingInMemory) events.emit('crowded', undefined);
    if (deadlineAt !== null) {
      execution.deadlineTimer = clock.at(deadlineAt, () => void cancellations.expire(workflowId));
    }
    void runWorkflow(execution, this.couldNotRun);
  }

  /** Suspends an execution that only waits. Its memory is freed; the workflow still belongs to this process. */
  suspend(execution: Execution): boolean {
    const { clock, slotsInUse, lifecycle } = this.engine;
    const waits = execution.suspendableWaits();
    const until = execution.idleUntil();
    // An execution whose wait ends now is about to continue.
    if (!waits || until === undefined || until <= clock.now() || !lifecycle.isOpen) return false;
    this.running.delete(execution.workflowId);
    const suspended = this.suspended.add(execution, waits);
    slotsInUse.replace(execution, suspended);
    execution.suspend(this.suspended.lateCallHandler(suspended));
    return true;
  }

  /** The outcome of an execution is committed. Returns true if a caller in this process waited for it. */
  finish(ending: Ending, owner: string): boolean {
    const execution = this.running.get(ending.workflowId);
    // A newer execution in this process owns the workflow, so the outcome of the older one does not count.
    if (execution?.claim.owner !== owner) return false;
    this.drop(execution);
    const hasWaiter = this.engine.completionWaiters.settle(ending);
    if (!hasWaiter && execution.claim.queueName !== null) this.engine.news.announceToOthers('ended');
    return hasWaiter;
  }

  /** Removes a workflow after a write showed that the workflow no longer belongs to this execution. */
  supersede(workflowId: string, owner: string, by: Superseded): void {
    const { cancellations, completionWaiters, events } = this.engine;
    const suspended = this.suspended.of(workflowId);
    const execution = this.running.get(workflowId);
    // The row of a cancelled workflow may be deleted before its code ends. Such a deletion is expected.
    const isUnexpected = suspended !== undefined || execution?.running === true;
    if (suspended?.owner === owner) this.dropSuspended(suspended);
    else if (execution?.claim.owner === owner) {
      if (by.status === 'CANCELLED' && by.owner === owner) execution.cancel(null);
      else execution.park();
      this.drop(execution);
    } else return;
    cancellations.noteEnded({ workflowId, owner });
    completionWaiters.watchElsewhere(workflowId);
    // The owner did not change, so the write was refused because earlier results are missing in the database.
    if (by.owner === owner && by.status === 'PENDING') events.emit('resultsLost', { workflowId, owner });
    if (by.status === undefined && isUnexpected) events.emit('rowMissing', workflowId);
  }

  /** Parks a workflow whose code does not match its history, and sets its status to STALLED. */
  async stall(workflowId: string, owner: string, error: HoldfastError): Promise<void> {
    const { engine } = this;
    const execution = this.running.get(workflowId);
    if (execution?.claim.owner !== owner || !execution.running) return;
    execution.park();
    engine.logger.error(error.message);
    try {
      const { text } = await codecOf(engine, execution.claim.serialization).encodeError(error);
      const stalled = { workflowId, owner, error: text, reason: error.message, now: engine.clock.now() };
      await engine.untilAnswered('Setting a workflow to STALLED', () => engine.storage.workflows.stall(stalled));
    } catch (failure) {
      return this.retryLater(execution, 'could not be set to STALLED', failure);
    }
    this.drop(execution);
    engine.cancellations.noteEnded({ workflowId, owner });
    engine.completionWaiters.watchElsewhere(workflowId);
  }

  /** A workflow that was to run here is CANCELLED: callers that waited for its earlier execution poll the database. */
  private informWaiters(workflowId: string): void {
    this.engine.watches.ended(workflowId);
    this.engine.completionWaiters.watchElsewhere(workflowId);
  }

  /** Ends the execution of a cancelled workflow. Returns false if the workflow runs here under another owner token. */
  cancel(workflowId: string, owner: string | null, reason: string | null): boolean {
    const execution = this.running.get(workflowId);
    if (execution) {
      if (execution.claim.owner !== owner) return false;
      execution.cancel(reason);
      this.drop(execution);
    }
    const suspended = this.suspended.of(workflowId);
    if (!suspended) return true;
    if (suspended.owner !== owner) return false;
    this.dropSuspended(suspended);
    return true;
  }

  /** Resolves when the next workflow has ended here. */
  nextEnd(): Promise<void> {
    return new Promise((resolve) => this.endWaiters.add(resolve));
  }

  /** Parks everything. Returns the executions that were in memory, and every workflow that still belongs here. */
  close(): { readonly parked: readonly Execution[]; readonly owned: () => readonly OwnedWorkflow[] } {
    const parked = [...this.running.values()];
    const suspended = this.suspended.close();
    for (const execution of parked) execution.park();
    return { parked, owned: () => [...parked.map(({ claim }) => claim), ...suspended, ...this.unstarted] };
  }

  clear(): void {
    this.running.clear();
  }

  /**
   * Ends the earlier execution of the workflow: a new claim does so, even if the same process made the claim. Returns
   * the suspended workflow instead if it continues under its own token.
   */
  private replaceEarlier({ workflowId, owner }: OwnedWorkflow): SuspendedWorkflow | undefined {
    const suspended = this.suspended.take(workflowId);
    if (suspended?.owner === owner) return suspended;
    const execution = this.running.get(workflowId);
    execution?.park();
    this.running.delete(workflowId);
    for (const earlier of [execution?.claim, suspended]) if (earlier) this.engine.cancellations.noteEnded(earlier);
    for (const earlier of [execution, suspended]) if (earlier) this.engine.slotsInUse.leave(earlier);
    return undefined;
  }

  private create(claimed: ClaimedWorkflow, returning: SuspendedWorkflow | undefined): Execution {
    const execution = new Execution(this.engine, claimed);
    execution.staysInMemory = this.suspended.hadLateCall(claimed.workflowId);
    this.running.set(claimed.workflowId, execution);
    if (returning) {
      execution.announceAtEnd = returning.announceAtEnd;
      execution.hadPredecessors = returning.hadPredecessors;
      execution.frontier = returning.frontier;
      execution.staysInMemory = returning.hadLateCall;
      this.engine.slotsInUse.replace(returning, execution);
    } else this.engine.slotsInUse.enter(execution);
    return execution;
  }

  private readonly couldNotRun = (execution: Execution, error: unknown): void =>
    this.retryLater(execution, 'could not be run', error);

  private retryLater(execution: Execution, problem: string, error: unknown): void {
    this.drop(execution);
    // Another process may end the workflow before the retry.
    this.engine.completionWaiters.watchElsewhere(execution.workflowId);
    this.engine.claims.retryLater(execution.claim, problem, error);
  }

  private drop(execution: Execution): void {
    if (this.running.get(execution.workflowId) === execution) this.running.delete(execution.workflowId);
    this.engine.slotsInUse.leave(execution);
    this.announceEnd(execution);
  }

  private dropSuspended(suspended: SuspendedWorkflow): void {
    this.suspended.take(suspended.workflowId);
    this.engine.slotsInUse.leave(suspended);
    this.announceEnd(suspended);
  }

  private announceEnd({ workflowId, announceAtEnd }: Pick<Execution, 'workflowId' | 'announceAtEnd'>): void {
    this.engine.watches.ended(workflowId);
    if (announceAtEnd) for (const topic of announceAtEnd) this.engine.news.announceToOthers(topic);
    if (this.endWaiters.size === 0) return;
    for (const resolve of this.endWaiters) resolve();
    this.endWaiters.clear();
  }
}
