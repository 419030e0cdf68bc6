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
import { outside } from './scope-storage.js';
import { cancelledError, mismatchAdvice, stalledError } from './workflow-errors.js';

/**
 * - `running`: its code runs or waits; its writes count.
 * - `cancelled`: the workflow is CANCELLED. Its code sees that as an error at each durable call, so that it can clean
 *   up in memory; nothing durable succeeds any more.
 * - `parked`: another owner has the workflow, or the process is handing it over. Its code sees nothing at all: no
 *   promise of ours settles again, so no `catch` and no `finally` of it runs on account of the loss.
 * - `closed`: the function has returned or thrown.
 */
export type ExecutionState = 'running' | 'cancelled' | 'parked' | 'closed';

/**
 * How long the code may take to ask for a step that is on record. Deterministic code asks at once; one that waits for
 * something unrecorded in between gets the benefit of the doubt.
 */
const replayPatienceMs = 10_000;

/** One run of a workflow's function in this process, from a claim to its end. Nothing else holds on to it. */
export class Execution {
  readonly deliveries: Deliveries;
  readonly history: History | undefined;
  /** What its next row comes after. */
  frontier: Frontier;
  state: ExecutionState = 'running';
  /** Epoch milliseconds that `now()` shows: the completion of the last result delivered, at first the start. */
  currentTime: number;
  deadlineTimer: Timer | undefined;
  private replayTimer: Timer | undefined;
  /** Step bodies under way. */
  runningSteps = 0;
  readonly calls = new DurableCalls();
  /** The place of the first failure that the code was given. */
  firstFailure: number | undefined;
  /** Durable calls whose result the code has not been given yet. */
  openCalls = 0;
  /** Grows with each durable call and with each result: what has not changed for a while has been idle that long. */
  activity = 0;
  /** What is news to other processes as soon as it is over: their readers of its streams have all there will be. */
  tellAtEnd: Set<Topic> | undefined;
  /** Its code awaits more than what is on record: letting go of it again would only make it begin that anew. */
  staysInMemory = false;
  private onLateCall: (() => void) | undefined;
  private steps = 0;
  /** By step number: the place of the last result that the code had been given when it asked for the step. */
  private askedAfter: number[] = noNumbers;
  /**
   * Attempts of steps may have begun in an execution before it that was ended. Not so in one that comes back from its rest: nothing
   * was running when it was let go of.
   */
  hadPredecessors: boolean;
  private ownAttempts: Attempts | undefined;
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

  /** It has used up half of its attempts: perhaps it is what ends its processes (storage/sql/dequeue.ts). */
  get isSuspect(): boolean {
    const before = this.claim.attempt - 1;
    return before > 0 && before * 2 >= this.engine.registry.policyOf(this.claim.definition).maxAttempts;
  }

  /**
   * Taken synchronously, at the call and before the first await: two steps started in one tick must get their numbers
   * in call order, or a replay would hand each the other's result.
   */
  takeStepNumber(): number {
    if (this.steps === 0) this.askedAfter = [];
    this.askedAfter.push(this.deliveries.lastSeq);
    return this.steps++;
  }

  /** A step is asked for. Its number may be older: that of a result which a direct call of a child waits for. */
  ask(stepNumber: number): void {
    this.askedAfter[stepNumber] = this.deliveries.lastSeq;
  }

  /** The place of the last result that the code had been given when it asked for this step; -1: none. The same in a replay. */
  requestedAfter(stepNumber: number): number {
    return this.askedAfter[stepNumber] ?? -1;
  }

  /** The ID of the workflow that this step starts, unless it is given another: the same in a replay. */
  childId(stepNumber: number): string {
    const { number } = this.retryBefore(stepNumber);
    return `${this.workflowId}-${stepNumber}${number === 0 ? '' : `-r${number}`}`;
  }

  /** Since when what is kept elsewhere for this step, under its workflow and number, is of this step and no other. */
  isNewSince(stepNumber: number): number {
    return this.retryBefore(stepNumber).at ?? this.claim.createdAt;
  }

  private retryBefore(stepNumber: number) {
    this.retries ??= parseRetries(this.claim.retries);
    return retryBefore(this.retries, stepNumber, this.requestedAfter(stepNumber));
  }

  /** Null: nothing that a retry would have to know of. Of those asked for before any failure it repeats none. */
  get underWay(): string | null {
    const { firstFailure } = this;
    if (firstFailure === undefined) return null;
    const byNumber = new Map<number, UnderWay>();
    for (const { stepNumber, name } of this.calls.underWay()) {
      if (stepNumber === undefined || byNumber.has(stepNumber)) continue;
      const requestedAfter = this.requestedAfter(stepNumber);
      if (requestedAfter >= firstFailure) byNumber.set(stepNumber, { stepNumber, name, requestedAfter });
    }
    return byNumber.size === 0 ? null : JSON.stringify([...byNumber.values()]);
  }

  get stepCount(): number {
    return this.steps;
  }

  /** Undefined: none of its steps has asked for them. */
  get attemptsAsked(): Attempts | undefined {
    return this.ownAttempts;
  }

  get attempts(): Attempts {
    this.ownAttempts ??= new Attempts(this);
    return this.ownAttempts;
  }

  get random(): SeededRandom {
    this.generator ??= new SeededRandom(this.claim.seed ?? this.workflowId);
    return this.generator;
  }

  /** Aborts when the workflow is cancelled, lost to another executor, handed over, or has returned. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (!this.running) this.controller.abort(this.cancellation);
    return this.controller.signal;
  }

  /** A wait (sleep, backoff, child result) that a cancellation ends at once. Returns the function that removes it. */
  onCancel(wait: Wait): () => void {
    if (this.waits === noWaits) this.waits = new Set();
    this.waits.add(wait);
    return () => void this.waits.delete(wait);
  }

  /**
   * Until when it has nothing to do but wait, or undefined when a step is running. Waiting for another workflow counts
   * as endless: whether that one has something to do is for itself to say.
   */
  idleUntil(): number | undefined {
    if (this.runningSteps > 0 || this.waits.size === 0) return undefined;
    let earliest = Number.POSITIVE_INFINITY;
    for (const wait of this.waits) earliest = Math.min(earliest, wait.until ?? earliest);
    return earliest;
  }

  /**
   * What it waits for, if that is all it does and each wait can go on without it: then its memory holds nothing that a
   * replay would not bring back. A call that is not a wait (a write under way, a result on its way) rules that out.
   */
  suspendableWaits(): readonly SuspendableWait[] | undefined {
    if (!this.running || this.runningSteps > 0 || this.waits.size === 0) return undefined;
    if (this.openCalls !== this.waits.size || this.deliveries.replaying) return undefined;
    const waits = [...this.waits];
    return waits.every((wait): wait is SuspendableWait => wait.watchWhileSuspended !== undefined) ? waits : undefined;
  }

  /**
   * Its code is let go of, and a replay takes its place when one of its waits ends. If it makes another durable call after
   * all, because it also awaited something that is not on record, `stirred` is called: the replay will get there too.
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

  /** What a durable call does in an execution that is over: fail if cancelled, else never settle. */
  refuse(): Promise<never> {
    this.onLateCall?.();
    if (!this.cancellation) return new Promise(() => {});
    const refusal = Promise.reject(this.cancellation);
    refusal.catch(() => {});
    return refusal;
  }

  /**
   * Results wait for a recorded one before them that the code has not asked for. If it never does, because that step
   * was removed from the code, nothing would ever arrive.
   */
  private watchReplay(): void {
    const step = this.deliveries.heldUpBy;
    if (step === undefined || this.replayTimer || this.history?.wasRequested(step)) return;
    const { clock } = this.engine;
    const check = (): void => {
      this.replayTimer = undefined;
      if (this.deliveries.heldUpBy !== step) this.watchReplay();
      else if (!this.history?.wasRequested(step)) this.stallUnasked(step);
    };
    this.replayTimer = clock.at(clock.now() + replayPatienceMs, check, 'background');
  }

  private stallUnasked(stepNumber: number): void {
    const { claim, history, engine } = this;
    const recorded = history?.peek(stepNumber)?.name;
    const diff = history?.diff();
    const why = `its code does not ask for step ${stepNumber} "${recorded}", which is on record. ${mismatchAdvice(stepNumber, diff, history?.missing)}`;
    const error = stalledError('NON_DETERMINISM', claim, why, { stepNumber, recorded, diff });
    void engine.stall(claim.workflowId, claim.owner, error);
  }

  private dropWaits(): void {
    if (this.waits.size === 0) return;
    for (const wait of this.waits) wait.dropped();
    this.waits = noWaits;
  }

  private end(state: ExecutionState): void {
    this.state = state;
    this.deliveries.stop();
    this.deadlineTimer?.cancel();
    this.replayTimer?.cancel();
    // Listeners run in here, on behalf of whoever cancels: perhaps another workflow.
    outside(() => this.controller?.abort(this.cancellation));
  }
}

// Of one that does not wait: shared and never written to, because most executions never do.
const noWaits = new Set<Wait>();
const noNumbers: number[] = [];

export interface Wait {
  /** When it ends by itself, if that is known. */
  until?: number;
  cancelled(error: Error): void;
  /** Nobody will hear of its end: let go of timers. */
  dropped(): void;
  /**
   * Goes on without the execution: `wake` is called when what is waited for may have come; `until` is seen to by the
   * caller. Returns how to stop that, if there is something to stop. Absent while the wait lives in memory only. Must hold on to nothing of the
   * execution, or letting go of it would free no memory.
   */
  watchWhileSuspended?: ((wake: () => void) => (() => void) | undefined) | undefined;
}

export type SuspendableWait = Wait & { readonly watchWhileSuspended: NonNullable<Wait['watchWhileSuspended']> };
