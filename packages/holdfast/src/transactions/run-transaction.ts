import { runInScope, type Scope, type StepScope, whileWaiting } from '../engine/api/context.js';
import type { Execution } from '../engine/execution/execution.js';
import { type Outcome, succeeded } from '../engine/execution/outcome.js';
import { stepResult, untilConfirmed } from '../engine/execution/run-step.js';
import { type Result, stalledError } from '../engine/execution/workflow-errors.js';
import { Backoff } from '../engine/write/backoff.js';
import { isHoldfastError } from '../model/errors.js';
import type { After } from '../storage/contract/storage.js';
import {
  type Completion,
  type Completions,
  type Datasource,
  forbiddenError,
  hasOneSnapshot,
  isForbidden,
  rolledBackError,
  type TransactionMode,
  watchOpen,
  withoutWrites,
} from '../storage/open-datasource.js';
import { CheckpointRefused, ExecutionEnded, endedByItself, RecordConflict, Unstorable } from './ends.js';
import {
  isAborted,
  isConflict,
  isOutage,
  isReadOnlyServer,
  isTemporaryRefusal,
  isUnconfirmed,
  isUnreachable,
} from './failures.js';
import { callerTransactionOf, forgetLocation, type OutcomeLocation, outcomeLocationOf } from './outcome-location.js';

export interface TransactionCall<Tx> {
  readonly datasource: Datasource<Tx>;
  readonly name: string;
  readonly stepNumber: number;
  readonly mode: TransactionMode;
  readonly fn: (tx: Tx) => unknown;
  readonly maxBytes: number | undefined;
}

/** `recording`: the function has returned, and the statements that run now are our own. */
type Phase = 'opening' | 'running' | 'recording' | 'committing';

/**
 * One transaction step of one execution: the user's function and the record of its outcome, in one transaction.
 *
 * 1. The record is queried before the function runs, and again before an error of the function counts. An earlier
 *    execution may have been committing during the first query, and its changes may have caused the error.
 * 2. Two executions that write the record conflict on its primary key, even if one of them also writes a checkpoint
 *    (outcome-location.ts). The later one rolls back and uses the outcome of the earlier one.
 * 3. An execution that has lost its workflow does not commit. A checkpoint is fenced, so it guarantees this. Before a
 *    record in another database is written, only the memory of this process is checked; then (2) lets one commit.
 */
export class TransactionRun<Tx> {
  private phase: Phase = 'opening';
  /** The function has ended the transaction by a statement. */
  private isEnded = false;
  /** The function was not called, because the start gate closed: another process may own the workflow now. */
  private gateClosed = false;
  /**
   * False if earlier executions used up all attempts. In that case this execution has not queried their outcome yet.
   */
  private wasTried = false;
  /** Never changes: an attempt whose commit was not confirmed must be queried at the same location. */
  private location: OutcomeLocation | undefined;
  /** The table of the records. Undefined if no other execution can write records and this one needs none. */
  private completions: Completions | undefined;
  /** Number of statements that had been confirmed when the transaction that took `seq` began. */
  private confirmedBefore = 0;
  /** Place in the completion order, taken with the first checkpoint. Kept while the commit may have succeeded. */
  private seq: number | undefined;

  constructor(
    private readonly execution: Execution,
    private readonly call: TransactionCall<Tx>,
  ) {}

  /** Runs one attempt of the step. Repeats it while the database causes the failure, and not the function. */
  async attempt(scope: Scope & { step: StepScope }, startedAt: number): Promise<Outcome> {
    const { execution, call } = this;
    const { logger } = execution.engine;
    this.wasTried = true;
    const backoff = new Backoff(`Transaction "${call.name}" of workflow "${execution.workflowId}"`, logger);
    for (;;) {
      if (!execution.engine.startGate.isOpen) await whileWaiting(untilConfirmed(execution), scope.step);
      this.phase = 'opening';
      [this.gateClosed, this.isEnded] = [false, false];
      try {
        return await this.confirmed(await this.commit(scope, startedAt), startedAt, backoff);
      } catch (error) {
        if (error instanceof Unstorable) return error.outcome;
        if (!execution.running) throw error;
        if (this.gateClosed) continue;
        if (this.runsOurStatements && isForbidden(error)) this.refuse(error);
        const stored = this.mayBeStored(error) ? await this.storedOutcome(startedAt, backoff) : undefined;
        if (stored) return stored;
        if (error instanceof RecordConflict) await this.checkOwned(error instanceof CheckpointRefused);
        if (!isUnconfirmed(error)) this.releasePlace();
        if (!this.isDatabaseFault(error) || !execution.running) throw error;
        if (!(error instanceof RecordConflict) && !isConflict(error)) forgetLocation(execution, call.datasource);
        await backoff.pause(error);
        if (!execution.running) throw error;
      }
    }
  }

  /**
   * Postgres rolls back instead of committing if a statement of the transaction has failed. Libraries that hide this
   * answer report a commit, so the outcome is queried after the commit.
   */
  private async confirmed(outcome: Outcome, startedAt: number, backoff: Backoff): Promise<Outcome> {
    const { datasource, mode, name } = this.call;
    if (mode.readOnly || datasource.confirmsCommit) return outcome;
    if (await this.storedOutcome(startedAt, backoff, outcome)) return outcome;
    throw rolledBackError(name);
  }

  /** The transaction is certainly rolled back, so later results do not wait for its place in the completion order. */
  private releasePlace(): void {
    if (this.seq !== undefined) this.execution.deliveries.skip(this.seq);
    this.seq = undefined;
  }

  /**
   * Stores a failure at the location where a success would be stored. The failure counts only after that. Otherwise
   * another execution, which may still run the function, could commit changes that this execution has reported as
   * failed.
   */
  async settleFailure(outcome: Outcome): Promise<Outcome> {
    const { datasource, mode, name } = this.call;
    if (outcome.result.ok || mode.readOnly) return outcome;
    const { logger, clock } = this.execution.engine;
    const backoff = new Backoff(`Recording the failure of transaction "${name}"`, logger);
    while (this.execution.running) {
      try {
        if (!this.wasTried) await this.findLocation();
        const { completions } = this;
        if (!completions) return outcome;
        const { error, serialization } = outcome;
        const row = { ...this.key, output: null, error, serialization, createdAt: clock.now() };
        const written = await datasource.transact({}, (tx) => completions.insert(datasource, tx, row));
        if (written) return outcome;
        const earlier = await this.storedOutcome(outcome.startedAt, backoff);
        if (earlier) return earlier;
        await this.checkOwned();
      } catch (error) {
        if (error instanceof ExecutionEnded) return outcome;
        if (!this.wasTried && isForbidden(error)) this.refuse(error);
        await backoff.pause(error);
      }
    }
    return outcome;
  }

  /** Returns the outcome with the place in the completion order that an earlier, unconfirmed commit took. */
  placed(outcome: Outcome): Outcome {
    return this.seq === undefined ? outcome : { ...outcome, seq: this.seq };
  }

  private async commit(scope: Scope & { step: StepScope }, startedAt: number): Promise<Outcome> {
    const { datasource, mode, name } = this.call;
    const work = await this.workOf(scope, startedAt);
    const committed = datasource.transact(mode, async (tx) => {
      const working = work(tx).then((done) => {
        this.phase = 'committing';
        return done;
      });
      // If the function has ended the transaction itself, some libraries do not wait for this promise.
      working.catch(() => {});
      return working;
    });
    const outcome = await committed.catch((error: unknown) => {
      // Libraries that find no open transaction to roll back throw another error.
      if (this.isEnded) throw endedByItself(name);
      throw this.phase === 'recording' && isAborted(error) ? rolledBackError(name, error) : error;
    });
    if (!outcome || this.phase !== 'committing') throw endedByItself(name);
    return outcome;
  }

  private async workOf(scope: Scope & { step: StepScope }, startedAt: number): Promise<(tx: Tx) => Promise<Outcome>> {
    const { datasource, mode } = this.call;
    const body = (tx: Tx): Promise<Outcome> => this.body(tx, scope, startedAt);
    if (mode.readOnly) return (tx) => withoutWrites(datasource, tx, () => body(tx));
    const location = await this.findLocation();
    const { after } = this.execution.frontier;
    if (this.seq === undefined) this.confirmedBefore = this.execution.engine.checkpoints.confirmedCount;
    return async (tx) => {
      const recorded = await this.recorded(tx, startedAt);
      if (recorded) return recorded;
      const isOpen = await watchOpen(datasource, tx);
      const outcome = await body(tx);
      this.isEnded = !(await isOpen());
      if (this.isEnded) throw endedByItself(this.call.name);
      await this.insertRecord(tx, outcome);
      return location.kind === 'record' ? outcome : this.withCheckpoint(tx, outcome, after);
    };
  }

  private async findLocation(): Promise<OutcomeLocation> {
    this.location ??= await outcomeLocationOf(this.execution, this.call.datasource);
    const { location } = this;
    if (!location) {
      const [row] = await this.execution.engine.storage.workflows.get([this.execution.workflowId]);
      return this.lost(row ?? null);
    }
    // A first run with a checkpoint needs no table: there are no records of earlier runs, and the fence separates it
    // from later runs.
    if (location.kind === 'record') this.completions = location.completions;
    else if (this.mayHavePredecessors) this.completions ??= await location.earlier();
    return location;
  }

  private async body(tx: Tx, scope: Scope & { step: StepScope }, startedAt: number): Promise<Outcome> {
    // The start gate may have closed while the attempt waited for the database, for example if the process was
    // stopped. An open transaction must not wait for the gate, so it is rolled back.
    this.gateClosed = !this.execution.engine.startGate.isOpen;
    if (this.gateClosed) throw new Error('No step may start, because the start gate is closed.');
    this.phase = 'running';
    const value = await runInScope(scope, () => this.call.fn(tx));
    this.phase = 'recording';
    const outcome = await succeeded(this.execution, stepResult(this.call.name), startedAt, value, this.call.maxBytes);
    if (!outcome.result.ok) throw new Unstorable(outcome);
    if (!this.execution.running) throw new ExecutionEnded();
    return outcome;
  }

  private async insertRecord(tx: Tx, { output, serialization }: Outcome): Promise<void> {
    const row = { ...this.key, output, error: null, serialization, createdAt: this.execution.engine.clock.now() };
    const written = await this.completions?.insert(this.call.datasource, tx, row);
    if (written === false) throw new RecordConflict();
  }

  /**
   * Writes the checkpoint of the step in the user's transaction, fenced like any other. A transaction with one snapshot
   * does not see steps that were committed after it began. It can then only name the earlier results in `before`. This
   * is safe: if a backup was restored meanwhile, the snapshot does not see the restored row of the workflow either.
   */
  private async withCheckpoint(tx: Tx, outcome: Outcome, before: After): Promise<Outcome> {
    const { engine, claim, deliveries } = this.execution;
    const { stepNumber, name, datasource } = this.call;
    // The place is taken as late as possible, because from here on later results wait for this result.
    this.seq ??= deliveries.takeSeq();
    const completedAt = engine.clock.now();
    const { output, error, serialization, childWorkflowId, startedAt } = outcome;
    const { workflowId, owner } = claim;
    const written = { output, error, serialization, childWorkflowId, startedAt, completedAt, completionSeq: this.seq };
    const requestedAfter = this.execution.requestedAfter(stepNumber);
    const { after } = this.execution.frontier;
    const row = { workflowId, owner, stepNumber, name, requestedAfter, ...written };
    const { steps } = engine.storage.inTransaction(callerTransactionOf(datasource, tx));
    const record = async (named: After): Promise<boolean> =>
      (await steps.recordMany(engine.writer.appName, [{ ...row, ...named }])) === 1;
    if (
      !(await record(after)) &&
      (after === before || !(await hasOneSnapshot(datasource, tx)) || !(await record(before)))
    )
      throw new CheckpointRefused();
    return { ...outcome, seq: this.seq, writtenAt: completedAt, since: this.confirmedBefore };
  }

  /** Earlier executions of the workflow may have run, with or without recorded steps. */
  private get mayHavePredecessors(): boolean {
    return this.execution.history !== undefined || this.execution.claim.attempt > 1;
  }

  private get key() {
    const { workflowId, incarnation } = this.execution.claim;
    const { stepNumber } = this.call;
    // A retry of the workflow uses the step number again. A record with another instant is older, and is replaced.
    return { workflowId, stepNumber, startedAt: this.execution.ownDataSince(stepNumber), incarnation };
  }

  private async recorded(tx: Tx, startedAt: number): Promise<Outcome | undefined> {
    const found = await this.completions?.find(this.call.datasource, tx, this.key);
    return found && this.toOutcome(found, startedAt);
  }

  private async toOutcome(found: Completion, startedAt: number): Promise<Outcome> {
    const { output, error } = found;
    const { engine, claim } = this.execution;
    const { codecs } = engine;
    try {
      const codec = found.serialization === null ? codecs.native : codecs.for(found.serialization);
      const result: Result =
        error !== null
          ? { ok: false, error: await codec.decodeError(error) }
          : { ok: true, value: output === null ? undefined : await codec.decode(output) };
      return { output, error, serialization: codec.name, childWorkflowId: null, startedAt, begun: false, result };
    } catch (cause) {
      const why = `the record of transaction "${this.call.name}" cannot be read. ${codecs.errors.describe(cause)}`;
      void engine.executions.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
      throw new ExecutionEnded();
    }
  }

  /** True while our own statements run, and not statements of the function. */
  private get runsOurStatements(): boolean {
    return !this.call.mode.readOnly && (this.phase === 'opening' || this.phase === 'recording');
  }

  /**
   * This role may not use the records. An earlier execution with another role may have committed. Therefore neither
   * running the function nor failing the step is correct, and a retry does not help: the workflow is stalled.
   */
  private refuse(error: unknown): never {
    const { engine, claim } = this.execution;
    const { datasource, name } = this.call;
    const refusal = isHoldfastError(error) ? error : forbiddenError(datasource, name, error);
    if (!this.mayHavePredecessors) {
      // The failure cannot be stored as a record either. Without predecessors no other execution needs the record.
      this.completions = undefined;
      throw refusal;
    }
    const why = `${refusal.message} Then resume the workflow.`;
    void engine.executions.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
    throw new ExecutionEnded();
  }

  /** Returns true if an outcome may be stored despite the error: of this execution or of another one. */
  private mayBeStored(error: unknown): boolean {
    if (this.call.mode.readOnly || this.phase === 'opening') return false;
    return (
      error instanceof RecordConflict ||
      !this.isDatabaseFault(error) ||
      (this.phase === 'committing' && isUnconfirmed(error))
    );
  }

  private isDatabaseFault(error: unknown): boolean {
    if (error instanceof RecordConflict || isConflict(error)) return true;
    if (isReadOnlyServer(error)) return !this.call.mode.readOnly;
    // Until the record has been queried, an earlier execution may have committed. Until then no error counts.
    if (this.phase === 'opening') return isUnreachable(error) || this.mayHavePredecessors;
    if (this.phase === 'running') return isOutage(error);
    return isUnconfirmed(error) || isTemporaryRefusal(error);
  }

  /**
   * Returns the stored outcome, if there is one. Retries the query until the database answers. `own` is the outcome
   * that this execution has just written: then only its existence is checked.
   */
  private async storedOutcome(startedAt: number, backoff: Backoff, own?: Outcome): Promise<Outcome | undefined> {
    while (this.execution.running) {
      try {
        const checkpoint = this.location?.kind === 'checkpoint' ? await this.checkpointed(own) : undefined;
        if (checkpoint || !this.completions) return checkpoint;
        return await this.call.datasource.transact({}, (tx) => this.recorded(tx, startedAt));
      } catch (error) {
        if (error instanceof ExecutionEnded) throw error;
        await backoff.pause(error);
      }
    }
    throw new ExecutionEnded();
  }

  private async checkpointed(own?: Outcome): Promise<Outcome | undefined> {
    const { storage } = this.execution.engine;
    const { workflowId, owner } = this.execution.claim;
    const { stepNumber } = this.call;
    const [now] = await storage.steps.states([{ workflowId, stepNumber }]);
    if (now?.owner !== owner || now.status !== 'PENDING') return this.lost(now ?? null);
    if (!now.recorded) return undefined;
    // No other execution writes under our owner token, so the history, which may be long, need not be read.
    if (own) return own;
    const step = (await storage.steps.history([workflowId])).find((each) => each.stepNumber === stepNumber);
    if (!step) return undefined;
    const outcome = await this.toOutcome(step, step.startedAt ?? 0);
    return {
      ...outcome,
      ...(step.completionSeq !== null && { seq: step.completionSeq }),
      writtenAt: step.completedAt ?? 0,
      since: this.confirmedBefore,
    };
  }

  /**
   * Ends the execution if the workflow was deleted or has another owner: every further attempt would conflict again.
   */
  private async checkOwned(isRefused = false): Promise<void> {
    const { engine, claim, workflowId } = this.execution;
    const read = () => engine.storage.workflows.get([workflowId]);
    const [row] = (await engine.untilAnswered('Checking whether a workflow is still owned', read)) ?? [];
    if (isRefused || row?.owner !== claim.owner || row.status !== 'PENDING') this.lost(row ?? null);
  }

  /** Ends this execution, because it no longer owns the workflow. */
  private lost(now: { readonly owner: string | null; readonly status: Superseding } | null): never {
    const { engine, claim, workflowId } = this.execution;
    engine.executions.supersede(workflowId, claim.owner, { owner: now?.owner ?? null, status: now?.status });
    throw new ExecutionEnded();
  }
}

type Superseding = Parameters<Execution['engine']['executions']['supersede']>[2]['status'];
