import type { Timer } from '../../model/clock.js';
import { describeError } from '../../model/errors.js';
import type { OwnedWorkflow } from '../../storage/contract/storage.js';
import { reload } from '../claims.js';
import type { Engine } from '../engine.js';
import type { Execution, SuspendableWait } from '../execution/execution.js';
import type { Frontier } from '../execution/frontier.js';
import { outside } from '../execution/scope-storage.js';
import { timeoutReason } from '../execution/workflow-errors.js';
import { maxBusy } from '../queue/queue-load.js';
import type { Topic } from '../wait/news.js';
import { DeadlineHeap } from './deadline-heap.js';

/** How many are read back by one statement. */
const pageSize = 200;

/**
 * How long until the next page when there are too many busy executions already (a replay is work too, but those who keep
 * the process busy might wait for one), or until one that could not be read is tried again.
 */
const pauseMs = { busy: 200, failure: 5_000 };

/** Of so many that left by way of their queue it is remembered that their code had gone on. */
const maxLateCallers = 1_000;

/** A workflow of this process that is not in memory: all that is left is where it stands and what it waits for. */
export class SuspendedWorkflow implements OwnedWorkflow {
  readonly isSuspended = true;
  readonly workflowId: string;
  readonly owner: string;
  readonly claim: { readonly queueName: string | null; readonly partition: string | null };
  readonly isSuspect: boolean;
  readonly hadPredecessors: boolean;
  readonly tellAtEnd: Set<Topic> | undefined;
  /** What its next row comes after. */
  readonly frontier: Frontier;
  readonly deadlineAt: number | null;
  /** Its slot in its queue: kept, or being given back, given back, or being asked for again. */
  slot: 'held' | 'leaving' | 'free' | 'returning' = 'held';
  /** It was woken while its slot was being given back. */
  isDue = false;
  /** Its code went on although it was let go of. */
  hadLateCall = false;
  /** Ends its waits. */
  stops: readonly (() => void)[] = none;

  constructor(
    execution: Execution,
    /** When it is due, whatever else happens. */
    readonly at: number,
  ) {
    const { workflowId, owner, queueName, partition, deadlineAt } = execution.claim;
    [this.workflowId, this.owner, this.deadlineAt] = [workflowId, owner, deadlineAt];
    this.claim = queueName === null ? ofNoQueue : { queueName, partition };
    this.isSuspect = execution.isSuspect;
    this.hadPredecessors = execution.hadPredecessors;
    this.tellAtEnd = execution.tellAtEnd;
    this.frontier = execution.frontier;
  }

  idleUntil(): number {
    return this.at;
  }
}

const none: readonly never[] = [];
const ofNoQueue = { queueName: null, partition: null };

/**
 * Workflows of this process that only wait and were let go of. They are PENDING and this process's like any other that
 * it runs; when what they wait for may have come, their history is read and they are run again from it. That is no
 * attempt, and no write: their owner token stays, and whoever has taken them over meanwhile has fenced it.
 *
 * **Invariant:** a wait is watched for here before the execution stops watching, and the first look at what it waits for
 * begins after that: what comes in between is seen by one of the two.
 *
 * In a queue with `whileWaiting: 'release'` one that rests gives its slot back: its row is marked, and whoever counts
 * what the queue runs passes over it. It goes on by way of the queue, like work that was handed over.
 *
 * **Invariant:** what is marked never becomes unmarked but by a claim. What counts for the limits of a queue would else
 * grow between the counts that somebody plans by and their claim.
 */
export class SuspendedWorkflows {
  private readonly workflows = new Map<string, SuspendedWorkflow>();
  private readonly deadlines = new DeadlineHeap<SuspendedWorkflow>();
  private readonly due = new Set<SuspendedWorkflow>();
  private readonly lateCallers = new Set<string>();
  private returning = false;
  private closed = false;
  private timer: Timer | undefined;
  private timerAt = Number.POSITIVE_INFINITY;

  constructor(private readonly engine: Engine) {}

  get size(): number {
    return this.workflows.size;
  }

  /** Nobody is on the way back. */
  get isIdle(): boolean {
    return this.due.size === 0 && !this.returning;
  }

  /** When the next one is due; now, if one is on its way back. */
  get nextAt(): number {
    if (!this.isIdle) return Number.NEGATIVE_INFINITY;
    this.passOverGone();
    return this.deadlines.first?.at ?? Number.POSITIVE_INFINITY;
  }

  all(): readonly SuspendedWorkflow[] {
    return [...this.workflows.values()];
  }

  of(workflowId: string): SuspendedWorkflow | undefined {
    return this.workflows.get(workflowId);
  }

  /** All of them; whoever closes hands them over. */
  close(): OwnedWorkflow[] {
    this.closed = true;
    this.timer?.cancel();
    this.due.clear();
    const all = [...this.workflows.values()];
    for (const rest of all) this.take(rest.workflowId);
    return all;
  }

  /** Takes the place of an execution, which the caller then lets go of. */
  add(execution: Execution, waits: readonly SuspendableWait[]): SuspendedWorkflow {
    let at = execution.claim.deadlineAt ?? Number.POSITIVE_INFINITY;
    for (const { until } of waits) at = Math.min(at, until ?? at);
    const rest = new SuspendedWorkflow(execution, at);
    this.workflows.set(rest.workflowId, rest);
    const wake = wakerOf(rest, (due) => this.wake(due));
    const stops = waits.flatMap((wait) => wait.watchWhileSuspended(wake) ?? []);
    if (stops.length > 0) rest.stops = stops;
    if (at < Number.POSITIVE_INFINITY) this.deadlines.add(rest);
    this.arm();
    if (this.engine.queueCache.releasesSlots(rest.claim.queueName)) void outside(() => this.giveSlotBack(rest));
    return rest;
  }

  /** For code that goes on although it was let go of. */
  lateCallHandler(rest: SuspendedWorkflow): () => void {
    return wakerOf(rest, (due) => {
      due.hadLateCall = true;
      this.wake(due);
    });
  }

  /** Whether its code had gone on when it last left by way of its queue. Asked once, by the execution that comes next. */
  hadLateCall(workflowId: string): boolean {
    return this.lateCallers.delete(workflowId);
  }

  /** It is here no more: it runs again, or is someone else's, or has ended. */
  take(workflowId: string): SuspendedWorkflow | undefined {
    const rest = this.workflows.get(workflowId);
    if (!rest) return undefined;
    this.workflows.delete(workflowId);
    this.due.delete(rest);
    for (const stop of rest.stops) stop();
    // What is gone before its time stays on the agenda until it is most of it.
    if (this.workflows.size === 0 || this.deadlines.size > 2 * this.workflows.size + 1_000) {
      this.deadlines.filter((each) => this.isHere(each));
      this.arm();
    }
    return rest;
  }

  private isHere(rest: SuspendedWorkflow): boolean {
    return this.workflows.get(rest.workflowId) === rest;
  }

  private passOverGone(): void {
    for (let first = this.deadlines.first; first && !this.isHere(first); first = this.deadlines.first)
      this.deadlines.takeFirst();
  }

  private wake(rest: SuspendedWorkflow): void {
    if (this.closed || !this.isHere(rest)) return;
    if (rest.slot === 'leaving') rest.isDue = true;
    if (rest.slot === 'free') outside(() => this.goToQueue(rest));
    if (rest.slot !== 'held') return;
    this.due.add(rest);
    if (this.returning) return;
    this.returning = true;
    // Together with what else becomes due in this turn of the event loop.
    outside(() => setImmediate(() => void this.reloadDue()));
  }

  private async giveSlotBack(rest: SuspendedWorkflow): Promise<void> {
    const { checkpoints, queueLoad, logger } = this.engine;
    const { workflowId, owner, frontier } = rest;
    rest.slot = 'leaving';
    const written = await checkpoints.setAtRest({ workflowId, owner, ...frontier.after }).catch((error) => {
      logger.warn(`Workflow "${workflowId}" keeps its place in its queue while it waits: ${describeError(error)}`);
      return undefined;
    });
    if (typeof written === 'object') return this.engine.superseded(workflowId, owner, written);
    rest.slot = written === undefined ? 'held' : 'free';
    if (rest.slot === 'free' && this.isHere(rest)) queueLoad.leave(rest);
    if (rest.isDue) this.wake(rest);
  }

  /** Or to its end, if its deadline is what it was woken by. */
  private goToQueue(rest: SuspendedWorkflow): void {
    const { checkpoints, clock, news } = this.engine;
    const { workflowId, owner, deadlineAt, claim } = rest;
    rest.slot = 'returning';
    if (rest.hadLateCall) this.rememberLateCall(workflowId);
    const at = clock.now();
    const isOver = deadlineAt !== null && deadlineAt <= at;
    const gone = isOver
      ? this.engine.cancel([workflowId], timeoutReason())
      : checkpoints.putBack({ workflowId, owner, at });
    const left = (): void => {
      if (this.isHere(rest)) this.lose(rest);
      if (!isOver) news.announce(`queue:${claim.queueName}`);
    };
    gone.then(left, (error) => {
      rest.slot = 'free';
      this.tryLater(rest, error);
    });
  }

  private rememberLateCall(workflowId: string): void {
    this.lateCallers.add(workflowId);
    const [oldest] = this.lateCallers;
    if (oldest !== undefined && this.lateCallers.size > maxLateCallers) this.lateCallers.delete(oldest);
  }

  private arm(): void {
    const at = this.deadlines.first?.at ?? Number.POSITIVE_INFINITY;
    if (this.closed || at === this.timerAt) return;
    this.timer?.cancel();
    this.timerAt = at;
    if (at < Number.POSITIVE_INFINITY) this.timer = outside(() => this.engine.clock.at(at, () => this.wakeDue()));
  }

  private wakeDue(): void {
    this.timerAt = Number.POSITIVE_INFINITY;
    const now = this.engine.clock.now();
    for (let first = this.deadlines.first; first && first.at <= now; first = this.deadlines.first) {
      this.deadlines.takeFirst();
      this.wake(first);
    }
    this.arm();
  }

  private async reloadDue(): Promise<void> {
    while (this.due.size > 0 && !this.closed) {
      if (this.engine.busy > maxBusy) await new Promise((resolve) => setTimeout(resolve, pauseMs.busy));
      const page = [...this.due].slice(0, pageSize);
      await this.reloadPage(page);
    }
    this.returning = false;
  }

  private async reloadPage(page: readonly SuspendedWorkflow[]): Promise<void> {
    const asked = new Set(page);
    const isAwaited = (workflowId: string): boolean => {
      const rest = this.workflows.get(workflowId);
      return rest !== undefined && asked.has(rest);
    };
    const unread = new Set<SuspendedWorkflow>();
    const failed = (rest: SuspendedWorkflow, error: unknown): void => {
      unread.add(rest);
      this.tryLater(rest, error);
    };
    await reload(this.engine, page, { isAwaited, failed });
    // What was not brought back is not this process's any more.
    for (const rest of page) if (this.isHere(rest) && !unread.has(rest)) this.lose(rest);
  }

  private tryLater(rest: SuspendedWorkflow, error: unknown): void {
    this.due.delete(rest);
    if (!this.isHere(rest) || this.closed) return;
    const { clock, logger } = this.engine;
    logger.error(`Workflow "${rest.workflowId}" is due, cannot go on, and is tried again: ${describeError(error)}`);
    clock.at(clock.now() + pauseMs.failure, () => this.wake(rest));
  }

  private lose(rest: SuspendedWorkflow): void {
    this.take(rest.workflowId);
    this.engine.queueLoad.leave(rest);
    this.engine.completionWaiters.watchElsewhere(rest.workflowId);
  }
}

/** In a function of its own, so that it holds on to nothing else. */
function wakerOf(rest: SuspendedWorkflow, wake: (rest: SuspendedWorkflow) => void): () => void {
  return () => wake(rest);
}
