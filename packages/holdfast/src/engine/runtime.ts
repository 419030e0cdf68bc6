import type { Codecs } from '../codec/codec.js';
import { type Clock, delay } from '../model/clock.js';
import { closedError, describeError, type HoldfastError } from '../model/errors.js';
import { OwnerTokens } from '../model/ids.js';
import type { Logger } from '../model/logger.js';
import { internalQueue } from '../model/queues.js';
import type { CancelledWorkflow, Ending, OwnedWorkflow, Storage, Writer } from '../storage/contract/storage.js';
import { Claims, claimKey } from './claims.js';
import type { ClaimedWorkflow, Engine } from './engine.js';
import { Macrotasks } from './execution/deliveries.js';
import { Execution } from './execution/execution.js';
import { codecOf } from './execution/outcome.js';
import { runWorkflow } from './execution/run-workflow.js';
import { timeoutReason } from './execution/workflow-errors.js';
import { QueueCache } from './queue/queue-cache.js';
import { QueueLoad } from './queue/queue-load.js';
import type { Registry } from './registry.js';
import { StartGate } from './start-gate.js';
import { maxWaitingInMemory } from './suspend/evict-idle.js';
import { type SuspendedWorkflow, SuspendedWorkflows } from './suspend/suspended.js';
import { CompletionWaiters } from './wait/completion-waiters.js';
import { News } from './wait/news.js';
import { Watches } from './wait/watches.js';
import { WarnOnce } from './warn-once.js';
import { Backoff, isFinal } from './write/backoff.js';
import { Checkpoints, type Superseded } from './write/checkpoints.js';
import { EnqueueWriter } from './write/enqueue-writer.js';
import { flushed, handOver, waitsBeyond } from './write/hand-over.js';
import { MessageWriter } from './write/message-writer.js';
import { limitOutages, type Retried, reportRefusal } from './write/outage-log.js';

export interface RuntimeOptions {
  readonly writer: Writer;
  readonly version: string;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly codecs: Codecs;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Names of the queues that it works on; undefined: on all. */
  readonly listen?: readonly string[] | undefined;
  /** Crash point: the last moment before user code learns of a result. */
  readonly beforeResolve?: () => void;
}

/** At shutdown: how long to wait for writes that a database out of reach will never confirm. */
const longestFlushMs = 5_000;

/** The engine of one app: every execution of this process, from its claim until it has ended or is someone else's. */
export class Runtime implements Engine {
  app: object | undefined;
  readonly writer: Writer;
  readonly version: string;
  readonly owners = new OwnerTokens();
  readonly storage: Storage;
  readonly clock: Clock;
  readonly codecs: Codecs;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly checkpoints: Checkpoints;
  readonly enqueueWriter: EnqueueWriter;
  readonly queueCache: QueueCache;
  readonly news: News;
  readonly queueLoad: QueueLoad;
  readonly startGate = new StartGate((error) => reportRefusal(this.logger, error));
  readonly claims = new Claims(this);
  readonly completionWaiters: CompletionWaiters;
  readonly watches: Watches;
  readonly messageWriter: MessageWriter;
  readonly macrotasks: Macrotasks;
  private readonly running = new Map<string, Execution>();
  private readonly suspended = new SuspendedWorkflows(this);
  versionsAlive: Engine['versionsAlive'] = async () => new Set();
  peersOn: Engine['peersOn'] = () => [];
  /** Called when a row was refused because what its execution has done before is not on record any more. */
  onBehind: ((workflow: OwnedWorkflow) => void) | undefined;
  /** Called when a workflow that runs here is not on record any more. */
  onGone: ((workflowId: string) => void) | undefined;
  /** Called when more executions are in memory than are to wait there. */
  onCrowded: (() => void) | undefined;
  private readonly endWaiters = new Set<() => void>();
  private readonly warnings: WarnOnce;
  readonly listens: readonly string[] | null;
  /** Those that were cancelled between the commit of their start or claim and their first moment here. */
  private readonly cancelledUnstarted = new Set<string>();
  /** `draining`: no new work from outside; what runs goes on. `closed`: nothing runs any more. */
  private state: 'open' | 'draining' | 'closed' = 'open';
  private readonly unstarted: OwnedWorkflow[] = [];

  constructor(options: RuntimeOptions) {
    const { writer, version, storage, clock, codecs, registry } = options;
    const logger = limitOutages(options.logger, (error) => storage.classify(error) !== 'refused');
    [this.writer, this.version, this.storage, this.clock] = [writer, version, storage, clock];
    [this.codecs, this.logger, this.registry] = [codecs, logger, registry];
    this.listens = options.listen ?? null;
    this.queueLoad = new QueueLoad(clock);
    this.warnings = new WarnOnce(logger);
    this.checkpoints = new Checkpoints(storage, writer, logger, this.startGate);
    this.enqueueWriter = new EnqueueWriter(storage, logger);
    this.queueCache = new QueueCache(storage);
    this.news = new News(storage, logger);
    this.news.subscribe((topic) => {
      if (topic === null || topic === 'ended') this.completionWaiters.lookSoon();
    });
    this.completionWaiters = new CompletionWaiters(storage, clock, logger, (id) => this.isHere(id));
    this.watches = new Watches(storage, clock, logger, this.news);
    this.messageWriter = new MessageWriter(storage, logger);
    this.macrotasks = new Macrotasks(options.beforeResolve);
  }

  /** How many workflows are this process's, in memory or at rest. */
  get size(): number {
    return this.running.size + this.suspended.size;
  }

  /** How many of them have something to do. */
  get busy(): number {
    let busy = 0;
    for (const execution of this.running.values()) if (execution.idleUntil() === undefined) busy++;
    return busy;
  }

  /** Those at rest. */
  suspendedWorkflows(): readonly SuspendedWorkflow[] {
    return this.suspended.all();
  }

  get inMemory(): ReadonlyMap<string, Execution> {
    return this.running;
  }

  /** No write waits and no result is on its way to user code. What steps do by themselves does not count. */
  get isIdle(): boolean {
    const writers = [this.checkpoints, this.enqueueWriter, this.messageWriter, this.suspended];
    return this.macrotasks.idle && !this.claims.arePausing && writers.every(({ isIdle }) => isIdle);
  }

  checkOpen(): void {
    if (!this.isOpen) throw closedError();
  }

  get isOpen(): boolean {
    return this.state === 'open';
  }

  run(claimed: ClaimedWorkflow): void {
    const { workflowId, owner, deadlineAt } = claimed;
    if (this.state === 'closed') {
      this.unstarted.push({ workflowId, owner });
      return;
    }
    if (this.cancelledUnstarted.delete(claimKey({ workflowId, owner }))) return;
    // A claim by this very process supersedes its own earlier execution like any other owner's.
    const earlier = this.running.get(workflowId);
    earlier?.park();
    const rest = this.suspended.take(workflowId);
    const isBack = rest?.owner === owner;
    if (earlier) this.queueLoad.leave(earlier);
    if (rest && !isBack) this.queueLoad.leave(rest);
    if (deadlineAt !== null && deadlineAt <= this.clock.now()) {
      this.running.delete(workflowId);
      if (rest && isBack) this.queueLoad.leave(rest);
      void this.expireUnstarted(claimed);
      return;
    }
    const execution = new Execution(this, claimed);
    execution.staysInMemory = this.suspended.hadLateCall(workflowId);
    this.running.set(workflowId, execution);
    if (rest && isBack) {
      execution.tellAtEnd = rest.tellAtEnd;
      execution.hadPredecessors = rest.hadPredecessors;
      execution.frontier = rest.frontier;
      execution.staysInMemory = rest.hadLateCall;
      this.queueLoad.replace(rest, execution);
    } else this.queueLoad.enter(execution);
    if (this.running.size > maxWaitingInMemory) this.onCrowded?.();
    if (deadlineAt !== null) execution.deadlineTimer = this.clock.at(deadlineAt, () => void this.expire(workflowId));
    void runWorkflow(execution, this.couldNotRun);
  }

  private readonly couldNotRun = (execution: Execution, error: unknown): void => {
    this.drop(execution);
    this.claims.tryLater(execution.claim, 'could not be run', error);
  };

  /** Lets go of an execution that only waits: its memory is free, its workflow goes on being this process's. */
  suspend(execution: Execution): boolean {
    const waits = execution.suspendableWaits();
    const until = execution.idleUntil();
    // What is due at this moment is about to go on.
    if (!waits || until === undefined || until <= this.clock.now() || this.state !== 'open') return false;
    this.running.delete(execution.workflowId);
    const rest = this.suspended.add(execution, waits);
    this.queueLoad.replace(execution, rest);
    execution.suspend(this.suspended.lateCallHandler(rest));
    return true;
  }

  finished(ending: Ending, owner: string): boolean {
    const execution = this.running.get(ending.workflowId);
    // A newer execution here means that this outcome was another's to write after all.
    if (execution?.claim.owner !== owner) return false;
    this.drop(execution);
    const heard = this.completionWaiters.settle(ending);
    if (!heard && execution.claim.queueName !== null) this.news.announceToOthers('ended');
    return heard;
  }

  superseded(workflowId: string, owner: string, by: Superseded): void {
    const rest = this.suspended.of(workflowId);
    const execution = this.running.get(workflowId);
    // One that was cancelled may be deleted before its code has ended.
    const isUnexpected = rest !== undefined || execution?.running === true;
    if (rest?.owner === owner) this.dropSuspended(rest);
    else if (execution?.claim.owner === owner) {
      if (by.status === 'CANCELLED' && by.owner === owner) execution.cancel(null);
      else execution.park();
      this.drop(execution);
    } else return;
    this.completionWaiters.watchElsewhere(workflowId);
    // Still its own, and yet not to be written.
    if (by.owner === owner && by.status === 'PENDING') this.onBehind?.({ workflowId, owner });
    if (by.status === undefined && isUnexpected) this.onGone?.(workflowId);
  }

  async stall(workflowId: string, owner: string, error: HoldfastError): Promise<void> {
    const execution = this.running.get(workflowId);
    if (execution?.claim.owner !== owner || !execution.running) return;
    execution.park();
    this.logger.error(error.message);
    try {
      const { text } = await codecOf(this, execution.claim.serialization).encodeError(error);
      const stalled = { workflowId, owner, error: text, reason: error.message, now: this.clock.now() };
      await this.untilAnswered('Setting a workflow aside', () => this.storage.workflows.stall(stalled));
    } catch (failure) {
      this.drop(execution);
      return this.claims.tryLater(execution.claim, 'could not be set aside', failure);
    }
    this.drop(execution);
    this.completionWaiters.watchElsewhere(workflowId);
  }

  async cancel(workflowIds: readonly string[], reason: string | null): Promise<void> {
    const params = { workflowIds, reason, now: this.clock.now() };
    await this.storage.workflows.cancel(params, (part) => this.haveCancelled(part));
  }

  /** This process has: if a later part of the same call fails, these are CANCELLED all the same. */
  private haveCancelled(cancelled: readonly CancelledWorkflow[]): void {
    for (const each of cancelled) {
      // Its start is committed, but the answer to that is still on its way here.
      if (this.owners.issued(each.owner) && !this.isHere(each.workflowId)) {
        this.cancelledUnstarted.add(claimKey({ workflowId: each.workflowId, owner: each.owner }));
      }
      this.wasCancelled(each);
      if (each.queueName !== null) this.news.announce(`queue:${each.queueName}`);
    }
    if (cancelled.length > 0) this.news.announceToOthers('cancelled');
  }

  worksOn(queueName: string): boolean {
    if (this.version === '') return false;
    return queueName === internalQueue || this.listens === null || this.listens.includes(queueName);
  }

  warnOnce(about: string, message: string | (() => string | undefined)): void {
    this.warnings.once(about, message);
  }

  /** Someone, here or elsewhere, has made the workflow CANCELLED: its code and its waiters learn of it at once. */
  wasCancelled({ workflowId, owner, reason }: CancelledWorkflow): void {
    const execution = this.running.get(workflowId);
    if (execution) {
      // It may have been resumed, and be running again, before this news arrived.
      if (execution.claim.owner !== owner) return;
      execution.cancel(reason);
      this.drop(execution);
    }
    const rest = this.suspended.of(workflowId);
    if (rest) {
      if (rest.owner !== owner) return;
      this.dropSuspended(rest);
    }
    this.watches.ended(workflowId);
    const none = { output: null, error: null, serialization: null };
    this.completionWaiters.settle({ workflowId, status: 'CANCELLED', ...none, statusReason: reason });
  }

  /** Repeats a statement until the database answers or the app closes. For writes that must not be lost. */
  async untilAnswered<T>(what: string, statement: () => Promise<T>, failsFast = false): Promise<T | undefined> {
    const backoff = new Backoff(what, this.logger);
    while (this.state !== 'closed') {
      try {
        return await statement();
      } catch (error) {
        if (isFinal(this.storage.classify(error), failsFast)) throw error;
        await backoff.pause(error);
      }
    }
    return undefined;
  }

  /** From now on nothing new is started from outside. */
  refuseStarts(): void {
    if (this.state === 'open') this.state = 'draining';
  }

  /** Lets workflows go on until they have ended, or only wait, or the time is up; starts no new ones. */
  async drain(drainMs: number): Promise<void> {
    this.refuseStarts();
    const until = this.clock.now() + drainMs;
    const timeUp = new AbortController();
    const timer = this.clock.at(until, () => timeUp.abort());
    const isDone = (): boolean =>
      this.suspended.nextAt > until && [...this.running.values()].every((each) => waitsBeyond(each, until));
    while (!timeUp.signal.aborted && !isDone()) {
      const nextEnd = new Promise<void>((resolve) => this.endWaiters.add(resolve));
      await Promise.race([nextEnd, delay(this.clock, 100, timeUp.signal)]);
      // A parent that waited for the one that ended is still on its way to learn of it.
      await new Promise((resolve) => setImmediate(resolve));
    }
    timer.cancel();
  }

  /** Hands what is unfinished to the next process: its code here sees nothing more, its record stays as it is. */
  async handOver(): Promise<void> {
    this.state = 'closed';
    this.claims.stop();
    const unfinished = [...this.running.values()];
    const resting = this.suspended.close();
    for (const execution of unfinished) execution.park();
    const timeUp = new Promise((resolve) => setTimeout(resolve, longestFlushMs).unref());
    const writes = [flushed(this.checkpoints, unfinished), this.enqueueWriter.idle(), this.messageWriter.idle()];
    await Promise.race([Promise.all(writes), timeUp]);
    for (const each of [this.checkpoints, this.enqueueWriter, this.messageWriter]) each.close(closedError());
    this.running.clear();
    this.completionWaiters.close();
    this.watches.close();
    // Also what was started or claimed while closing, and never ran here.
    const owned = [...unfinished.map(({ claim }) => claim), ...resting, ...this.unstarted];
    await handOver(this, owned, longestFlushMs);
  }

  /** Stops everything as a crash would: nothing is handed over, nothing more is written. For tests. */
  abandon(): void {
    this.state = 'closed';
    this.claims.stop();
    this.checkpoints.close();
    this.enqueueWriter.close();
    this.messageWriter.close();
    this.suspended.close();
    for (const execution of this.running.values()) execution.park();
    this.running.clear();
    this.completionWaiters.close();
    this.watches.close();
  }

  private isHere(workflowId: string): boolean {
    return this.running.has(workflowId) || this.suspended.of(workflowId) !== undefined;
  }

  /** One whose deadline has passed when it is about to run. */
  private async expireUnstarted({ workflowId, owner }: OwnedWorkflow): Promise<void> {
    await this.expire(workflowId);
    this.cancelledUnstarted.delete(claimKey({ workflowId, owner }));
    // Someone else may have cancelled it before, and told nobody here.
    this.watches.ended(workflowId);
    this.completionWaiters.watchElsewhere(workflowId);
  }

  private async expire(workflowId: string): Promise<void> {
    try {
      await this.cancel([workflowId], timeoutReason());
    } catch (error) {
      // The sweep tries again.
      const message = `Workflow "${workflowId}" passed its deadline, and is cancelled soon: ${describeError(error)}`;
      this.logger.warn(message, { retriedAfter: error } satisfies Retried);
    }
  }

  private drop(execution: Execution): void {
    if (this.running.get(execution.workflowId) === execution) this.running.delete(execution.workflowId);
    this.queueLoad.leave(execution);
    this.announceEnd(execution);
  }

  private dropSuspended(rest: SuspendedWorkflow): void {
    this.suspended.take(rest.workflowId);
    this.queueLoad.leave(rest);
    this.announceEnd(rest);
  }

  private announceEnd({ workflowId, tellAtEnd }: Pick<Execution, 'workflowId' | 'tellAtEnd'>): void {
    this.watches.ended(workflowId);
    if (tellAtEnd) for (const topic of tellAtEnd) this.news.announceToOthers(topic);
    if (this.endWaiters.size === 0) return;
    for (const resolve of this.endWaiters) resolve();
    this.endWaiters.clear();
  }
}
