import type { Codecs } from '../codec/codec.js';
import { type Clock, delay } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { OwnerTokens } from '../model/ids.js';
import type { Logger } from '../model/logger.js';
import { internalQueue } from '../model/queues.js';
import type { Ending, Storage, Writer } from '../storage/storage.js';
import { Checkpoints, type Superseded } from './checkpoints.js';
import { Turns } from './deliveries.js';
import { closedError, timeoutReason } from './endings.js';
import type { ClaimedWorkflow, Engine } from './engine.js';
import { Execution } from './execution.js';
import { Outcomes } from './outcomes.js';
import type { Registry } from './registry.js';
import { runWorkflow } from './run-workflow.js';

export interface EngineOptions {
  readonly writer: Writer;
  readonly version: string;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly codecs: Codecs;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Crash point: the last moment before user code learns of a result. */
  readonly beforeResolve?: () => void;
}

/** At shutdown: how long to wait for writes that a database out of reach will never confirm. */
const longestFlushMs = 5_000;

/** The engine of one app: every execution of this process, from its claim until it has ended or is someone else's. */
export class Executions implements Engine {
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
  readonly outcomes: Outcomes;
  readonly turns: Turns;
  private readonly running = new Map<string, Execution>();
  private readonly endWaiters = new Set<() => void>();
  private closing = false;

  constructor(options: EngineOptions) {
    const { writer, version, storage, clock, codecs, logger, registry } = options;
    [this.writer, this.version, this.storage, this.clock] = [writer, version, storage, clock];
    [this.codecs, this.logger, this.registry] = [codecs, logger, registry];
    this.checkpoints = new Checkpoints(storage, writer, logger);
    this.outcomes = new Outcomes(storage, clock, logger, (id) => this.running.has(id));
    this.turns = new Turns(options.beforeResolve);
  }

  get size(): number {
    return this.running.size;
  }

  /** No write waits and no result is on its way to user code. What steps do by themselves does not count. */
  get atRest(): boolean {
    return this.turns.idle && this.checkpoints.isIdle;
  }

  checkOpen(): void {
    if (this.closing) throw closedError();
  }

  run(claimed: ClaimedWorkflow): void {
    if (this.closing) return; // Durable and unowned by anyone who lives: the next process recovers it.
    // A claim by this very process supersedes its own earlier execution like any other owner's.
    this.running.get(claimed.workflowId)?.park();
    const execution = new Execution(this, claimed);
    this.running.set(claimed.workflowId, execution);
    this.watchDeadline(execution);
    runWorkflow(execution).catch((error) => {
      this.logger.error(`Workflow "${claimed.workflowId}" could not be run: ${describeError(error)}`);
      this.drop(execution);
    });
  }

  finished(ending: Ending, owner: string): void {
    const execution = this.running.get(ending.workflowId);
    if (execution?.facts.owner === owner) this.drop(execution);
    this.outcomes.settle(ending);
  }

  superseded(workflowId: string, owner: string, by: Superseded): void {
    const execution = this.running.get(workflowId);
    if (execution?.facts.owner !== owner) return;
    if (by.status === 'CANCELLED' && by.owner === owner) execution.cancel(null);
    else execution.park();
    this.drop(execution);
    this.outcomes.watchElsewhere(workflowId);
  }

  async stall(workflowId: string, owner: string, reason: string): Promise<void> {
    const execution = this.running.get(workflowId);
    if (execution?.facts.owner !== owner || !execution.running) return;
    execution.park();
    this.logger.error(reason);
    try {
      await this.storage.workflows.stall({ workflowId, owner, reason, now: this.clock.now() });
    } catch (error) {
      this.logger.error(`Workflow "${workflowId}" could not be set aside: ${describeError(error)}`);
    }
    this.drop(execution);
    this.outcomes.watchElsewhere(workflowId);
  }

  async cancel(workflowIds: readonly string[], reason: string | null): Promise<void> {
    const changed = await this.storage.workflows.cancel({ workflowIds, reason, now: this.clock.now() });
    for (const workflowId of changed) this.wasCancelled(workflowId, reason);
  }

  /** Someone, here or elsewhere, has made the workflow CANCELLED: its code and its waiters learn of it at once. */
  wasCancelled(workflowId: string, reason: string | null): void {
    const execution = this.running.get(workflowId);
    if (execution) {
      execution.cancel(reason);
      this.drop(execution);
    }
    const none = { output: null, error: null, serialization: null };
    this.outcomes.settle({ workflowId, status: 'CANCELLED', ...none, statusReason: reason });
  }

  /** Lets workflows go on until they have ended, or only sleep, or the time is up; starts no new ones. */
  async drain(drainMs: number): Promise<void> {
    this.closing = true;
    const until = this.clock.now() + drainMs;
    const timeUp = new AbortController();
    const timer = this.clock.at(until, () => timeUp.abort());
    while (!timeUp.signal.aborted && [...this.running.values()].some((each) => !sleepsBeyond(each, until))) {
      await Promise.race([this.nextEnd(), delay(this.clock, 100, timeUp.signal)]);
    }
    timer.cancel();
  }

  /** Hands what is unfinished to the next process: its code here sees nothing more, its record stays as it is. */
  async handOver(): Promise<void> {
    this.closing = true;
    const unfinished = [...this.running.values()];
    for (const execution of unfinished) execution.park();
    await Promise.race([
      this.checkpoints.idle(),
      new Promise((resolve) => setTimeout(resolve, longestFlushMs).unref()),
    ]);
    this.checkpoints.close();
    const owned = unfinished.map(({ facts }) => ({ workflowId: facts.workflowId, owner: facts.owner }));
    this.running.clear();
    this.outcomes.close();
    if (owned.length === 0) return;
    await this.storage.workflows
      .release({ owned, queueName: internalQueue, now: this.clock.now() })
      .catch((error) => this.logger.warn(`Unfinished workflows could not be handed over: ${describeError(error)}`));
  }

  /** Stops everything as a crash would: nothing is handed over, nothing more is written. For tests. */
  abandon(): void {
    this.closing = true;
    this.checkpoints.close();
    for (const execution of this.running.values()) execution.park();
    this.running.clear();
    this.outcomes.close();
  }

  private watchDeadline(execution: Execution): void {
    const { deadlineAt, workflowId } = execution.facts;
    if (deadlineAt === null) return;
    execution.deadlineTimer = this.clock.at(deadlineAt, () => {
      this.cancel([workflowId], timeoutReason()).catch((error) => {
        // The sweep tries again.
        this.logger.warn(`Workflow "${workflowId}" passed its deadline: ${describeError(error)}`);
      });
    });
  }

  private drop(execution: Execution): void {
    if (this.running.get(execution.workflowId) === execution) this.running.delete(execution.workflowId);
    for (const resolve of this.endWaiters) resolve();
    this.endWaiters.clear();
  }

  private nextEnd(): Promise<void> {
    return new Promise((resolve) => this.endWaiters.add(resolve));
  }
}

function sleepsBeyond(execution: Execution, until: number): boolean {
  const wakesAt = execution.sleepingUntil();
  return wakesAt !== undefined && wakesAt > until;
}
