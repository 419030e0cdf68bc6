import type { Timer } from '../../model/clock.js';
import type { HoldfastError } from '../../model/errors.js';
import { SeededRandom } from '../../model/ids.js';
import { parseRetries, type RetryMark, retryBefore, type UnderWay } from '../../model/retries.js';
import type { ClaimedWorkflow, Engine } from '../engine.js';
import type { Topic } from '../wait/news.js';
import { Attempts } from './attempts.js';
import { Deliveries } from './deliveries.js';
import { DurableCalls } from './durable-call.js';
import { Frontier } from './frontier.js';
import { History } from './history.js';
import { runOutsideScope } from './scope-storage.js';
import { cancelledError, mismatchAdvice, stalledError } from './workflow-errors.js';

/**
 * - `running`: the code runs or waits, and its writes take effect.
 * - `cancelled`: the workflow is CANCELLED. Each durable call of the code rejects with that error, so that the code can
 *   clean up in memory. No durable call succeeds any more.
 * - `parked`: another owner has the workflow, or this process hands it over. The code sees nothing: no promise of ours
 *   settles again, so no `catch` and no `finally` block of the code runs because of the loss.
 * - `closed`: the function has returned or thrown.
 */
export type ExecutionState = 'running' | 'cancelled' | 'parked' | 'closed';

/**
 * Maximum time in milliseconds until the code must ask for a recorded step. Deterministic code asks at once. Code that
 * waits for something unrecorded before the step gets this time.
 */
const maxReplayWaitMs = 10_000;

/**
 * One run of a workflow's function in this process, from a claim to its end. Nothing keeps the object in memory after
 * that.
 */
export class Execution {
  readonly deliveries: Deliveries;
  readonly history: History | undefined;
  /** The committed results that the next row of this execution names as its predecessors. */
  frontier: Frontier;
  state: ExecutionState = 'running';
  /**
   * Epoch milliseconds that `now()` returns: the completion of the last delivered result, or the start before the
   * first.
   */
  currentTime: number;
  deadlineTimer: Timer | undefined;
  private replayTimer: Timer | undefined;
  /** Number of step functions that are running. */
  runningSteps = 0;
  readonly calls = new DurableCalls();
  /** The place (`completionSeq`) of the first failure that the code received. */
  firstFailure: number | undefined;
  /** Number of durable calls whose result the code has not received. */
  private openCalls = 0;
  private callsAndResults = 0;
  /**
   * Topics to announce when the execution ends: the readers of its streams in other processes then know that no value
   * will follow.
   */
  announceAtEnd: Set<Topic> | undefined;
  /**
   * True if the code awaits something that is not recorded. Another suspension would only make the code start this
   * unrecorded work again.
   */
  staysInMemory = false;
  private onLateCall: (() => void) | undefined;
  private steps = 0;
  /** By step number: the place of the last result that the code had received when it asked for the step. */
  private lastSeqAtCall: number[] = noNumbers;
  /**
   * True if an earlier execution that was interrupted may have begun attempts of steps. False for an execution that
   * returns from suspension: no step was running at the suspension.
   */
  hadPredecessors: boolean;
  private attemptsInUse: Attempts | undefined;
  private retries: readonly RetryMark[] | undefined;
  private generator: SeededRandom | undefined;
  private controller: AbortController | undefined;
  private cancellation: HoldfastError | undefined;
  private waits: Set<Wait> = noWaits;

  constructor(
    readonly engine: Engine,
    readonly claim: ClaimedWorkflow,
  ) {
    this.deliveries = new Deliveries(engine.macrotasks, claim.recorded ?? [], () => this.watchReplay());
    this.history = claim.recorded && new History(claim.recorded);
    this.frontier = Frontier.of(claim.recorded);
    this.hadPredecessors = claim.recorded !== undefined || claim.attempt > 1;
    this.currentTime = claim.beganAt ?? claim.createdAt;
  }

  get workflowId(): string {
    return this.claim.workflowId;
  }

  get running(): boolean {
    return this.state === 'running';
  }

  /**
   * True if the workflow has used up half of its attempts: it may be the workflow that ends its processes
   * (storage/sql/dequeue.ts).
   */
  get isSuspect(): boolean {
    const before = this.claim.attempt - 1;
    return before > 0 && before * 2 >= this.engine.registry.policyOf(this.claim.definition).maxAttempts;
  }

  /**
   * Takes the next step number, synchronously at the call and before the first await. Two steps that start in one tick
   * must get their numbers in call order. Otherwise a replay would give each step the result of the other.
   */
  takeStepNumber(): number {
    if (this.steps === 0) this.lastSeqAtCall = [];
    this.lastSeqAtCall.push(this.deliveries.lastSeq);
    return this.steps++;
  }

  /**
   * Notes that the code makes a durable call. The step may already have its number: a direct call of a child also takes
   * the step number for the result of the child.
   */
  beginCall(stepNumber: number): void {
    this.lastSeqAtCall[stepNumber] = this.deliveries.lastSeq;
    this.openCalls++;
    this.callsAndResults++;
  }

  /** Notes that the code receives the result of a durable call. */
  endCall(): void {
    this.openCalls--;
    this.callsAndResults++;
  }

  /** Number of durable calls and results so far. While the number stays unchanged, the execution is idle. */
  get activity(): number {
    return this.callsAndResults;
  }

  /**
   * Returns the place of the last result that the code had received when it asked for this step; -1 if it had received
   * none. A replay returns the same place.
   */
  requestedAfter(stepNumber: number): number {
    return this.lastSeqAtCall[stepNumber] ?? -1;
  }

  /**
   * Returns the ID of the workflow that this step starts, unless the start names another ID. A replay returns the same
   * ID.
   */
  childId(stepNumber: number): string {
    const { number } = this.retryBefore(stepNumber);
    return `${this.workflowId}-${stepNumber}${number === 0 ? '' : `-r${number}`}`;
  }

  /**
   * Returns the instant from which data stored elsewhere under this workflow and step number belongs to this step.
   * Older data belongs to an earlier step of that number.
   */
  ownDataSince(stepNumber: number): number {
    return this.retryBefore(stepNumber).at ?? this.claim.createdAt;
  }

  private retryBefore(stepNumber: number) {
    this.retries ??= parseRetries(this.claim.retries);
    return retryBefore(this.retries, stepNumber, this.requestedAfter(stepNumber));
  }

  /**
   * The unanswered calls from after the first failure, as JSON: a retry must know of them. Null if there are none.
   * Calls from before the first failure are left out, because a retry does not repeat them.
   */
  get underWay(): string | null {
    const { firstFailure } = this;
    if (firstFailure === undefined) return null;
    const byNumber = new Map<number, UnderWay>();
    for (const { stepNumber, name } of this.calls.unanswered()) {
      if (stepNumber === undefined || byNumber.has(stepNumber)) continue;
      const requestedAfter = this.requestedAfter(stepNumber);
      if (requestedAfter >= firstFailure) byNumber.set(stepNumber, { stepNumber, name, requestedAfter });
    }
    return byNumber.size === 0 ? null : JSON.stringify([...byNumber.values()]);
  }

  get stepCount(): number {
    return this.steps;
  }

  /** The attempts of its steps. Undefined if no step has used them. */
  get attemptsIfUsed(): Attempts | undefined {
    return this.attemptsInUse;
  }

  get attempts(): Attempts {
    this.attemptsInUse ??= new Attempts(this);
    return this.attemptsInUse;
  }

  get random(): SeededRandom {
    this.generator ??= new SeededRandom(this.claim.seed ?? this.workflowId);
    return this.generator;
  }

  /** Aborts when the workflow is cancelled, lost to another executor or handed over, or has ended. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (!this.running) this.controller.abort(this.cancellation);
    return this.controller.signal;
  }

  /**
   * Registers a wait (sleep, backoff, child result) that a cancellation ends at once. Returns the function that removes
   * the wait.
   */
  onCancel(wait: Wait): () => void {
    if (this.waits === noWaits) this.waits = new Set();
    this.waits.add(wait);
    return () => void this.waits.delete(wait);
  }

  /**
   * Returns the instant until which the execution only waits. Undefined while a step runs or nothing waits. A wait for
   * another workflow counts as endless: the execution of that workflow reports by itself whether it has something to
   * do.
   */
  idleUntil(): number | undefined {
    if (this.runningSteps > 0 || this.waits.size === 0) return undefined;
    let earliest = Number.POSITIVE_INFINITY;
    for (const wait of this.waits) earliest = Math.min(earliest, wait.until ?? earliest);
    return earliest;
  }

  /**
   * Returns the waits if the execution only waits and each wait can continue without it. Its memory then holds nothing
   * that a replay would not restore. Undefined if any other call is open, such as a write or a result that is about to
   * be delivered.
   */
  suspendableWaits(): readonly SuspendableWait[] | undefined {
    if (!this.running || this.runningSteps > 0 || this.waits.size === 0) return undefined;
    if (this.openCalls !== this.waits.size || this.deliveries.replaying) return undefined;
    const waits = [...this.waits];
    return waits.every((wait): wait is SuspendableWait => wait.watchWhileSuspended !== undefined) ? waits : undefined;
  }

  /**
   * Drops the code of the execution. A replay replaces it when one of its waits ends. The code may still make a durable
   * call, if it also awaited something unrecorded. Then `onLateCall` is called, because the replay will reach that call
   * too.
   */
  suspend(onLateCall: () => void): void {
    this.park();
    this.onLateCall = onLateCall;
  }

  cancel(reason: string | null): void {
    if (!this.running) return;
    this.cancellation = cancelledError(this.workflowId, reason);
    const waits: Pick<Wait, 'cancelled'>[] = [...this.waits, ...this.deliveries.undelivered()];
    this.waits = noWaits;
    this.end('cancelled');
    for (const wait of waits) wait.cancelled(this.cancellation);
  }

  park(): void {
    if (this.running) this.end('parked');
    this.dropWaits();
  }

  close(): void {
    if (this.running) this.end('closed');
    this.dropWaits();
  }

  /**
   * Answers a durable call of an execution that has ended: rejects if the workflow was cancelled, and otherwise never
   * settles.
   */
  refuse(): Promise<never> {
    this.onLateCall?.();
    if (!this.cancellation) return new Promise(() => {});
    const refusal = Promise.reject(this.cancellation);
    refusal.catch(() => {});
    return refusal;
  }

  /**
   * Stalls the workflow if results wait too long behind a recorded result that the code has not asked for. If the step
   * was removed from the code, the code never asks for it, and no result would ever arrive.
   */
  private watchReplay(): void {
    const step = this.deliveries.blockedBy;
    if (step === undefined || this.replayTimer || this.history?.wasRequested(step)) return;
    const { clock } = this.engine;
    const check = (): void => {
      this.replayTimer = undefined;
      if (this.deliveries.blockedBy !== step) this.watchReplay();
      else if (!this.history?.wasRequested(step)) this.stallMissingCall(step);
    };
    this.replayTimer = clock.at(clock.now() + maxReplayWaitMs, check, 'background');
  }

  private stallMissingCall(stepNumber: number): void {
    const { claim, history, engine } = this;
    const recorded = history?.peek(stepNumber)?.name;
    const diff = history?.diff();
    const advice = mismatchAdvice(stepNumber, diff, history?.missing);
    const why = `its code does not call step ${stepNumber} "${recorded}", which is in its history. ${advice}`;
    const error = stalledError('NON_DETERMINISM', claim, why, { stepNumber, recorded, diff });
    void engine.executions.stall(claim.workflowId, claim.owner, error);
  }

  private dropWaits(): void {
    if (this.waits.size === 0) return;
    for (const wait of this.waits) wait.abandoned();
    this.waits = noWaits;
  }

  private end(state: ExecutionState): void {
    this.state = state;
    this.deliveries.stop();
    this.deadlineTimer?.cancel();
    this.replayTimer?.cancel();
    // The listeners of the signal run inside this call, on behalf of the code that cancels: perhaps another workflow.
    // Therefore they run outside of any scope.
    runOutsideScope(() => this.controller?.abort(this.cancellation));
  }
}

// Shared empty collections for executions without waits or steps. They are never written to. Most executions never
// wait.
const noWaits = new Set<Wait>();
const noNumbers: number[] = [];

export interface Wait {
  /** The instant at which the wait ends by itself, if it is known. */
  until?: number;
  /** Called when the workflow is cancelled. */
  cancelled(error: Error): void;
  /** Called when no code will receive the end of the wait: stops its timers. */
  abandoned(): void;
  /**
   * Continues the wait without the execution. Calls `wake` when the awaited thing may have happened; the caller handles
   * `until`. Returns the function that stops the watch, if there is something to stop. Undefined if the wait exists
   * only in memory. Must not refer to the execution: otherwise a suspension would free no memory.
   */
  watchWhileSuspended?: ((wake: () => void) => (() => void) | undefined) | undefined;
}

export type SuspendableWait = Wait & { readonly watchWhileSuspended: NonNullable<Wait['watchWhileSuspended']> };
