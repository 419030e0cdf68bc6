import { enter, type Scope, type StepScope, whileWaiting } from '../engine/api/context.js';
import type { Execution } from '../engine/execution/execution.js';
import { type Outcome, succeeded } from '../engine/execution/outcome.js';
import { stepResult, untilConfirmed } from '../engine/execution/run-step.js';
import { type Result, stalledError } from '../engine/execution/workflow-errors.js';
import { Backoff } from '../engine/write/backoff.js';
import { isHoldfastError } from '../model/errors.js';
import { type Completion, type Completions, forbidden, isForbidden } from '../storage/caller/completions.js';
import {
  type Datasource,
  hasOneSnapshot,
  openness,
  rolledBackSilently,
  type TransactionMode,
  withoutWrites,
} from '../storage/caller/datasource.js';
import { type After, stepKey } from '../storage/contract/storage.js';
import { Beaten, endedByItself, Over, Refused, Unstorable } from './ends.js';
import {
  isAborted,
  isConflict,
  isOutage,
  isPutOff,
  isReadOnlyServer,
  isUnanswered,
  isUnreachable,
} from './failures.js';
import { borrowed, judgeAgain, type OutcomeLocation, outcomeLocationOf } from './outcome-location.js';

export interface TransactionCall<Tx> {
  readonly datasource: Datasource<Tx>;
  readonly name: string;
  readonly stepNumber: number;
  readonly mode: TransactionMode;
  readonly fn: (tx: Tx) => unknown;
  readonly maxBytes: number | undefined;
}

/** `recording`: the function has returned; what is under way is ours. */
type Phase = 'opening' | 'running' | 'recording' | 'committing';

/**
 * One transaction step of one execution: the user's function, and the record of what it came to, in one transaction.
 *
 * 1. The record is looked for before the function runs, and again before the function's error counts: an execution that
 *    is gone may have had its commit under way when this one looked. The function then fails over what is already there.
 * 2. Two executions that get as far as the record meet in its primary key, also if only one of them takes a checkpoint
 *    for it (outcome-location.ts). The later one rolls back and takes what the earlier one recorded.
 * 3. An execution that has lost its workflow does not commit. With a checkpoint for a record that is certain, by its
 *    fence; with a record in another database it is as soon as the loss is known here, and then (2) keeps it single.
 */
export class TransactionRun<Tx> {
  private phase: Phase = 'opening';
  /** The function has ended the transaction by a statement. */
  private isEnded = false;
  /** The function was not called, because nobody knows whether the workflow is still this process's. */
  private isUnheard = false;
  /** False if all attempts were used up before one began here: nobody has looked for what those came to. */
  private wasTried = false;
  /** Stays what it was: of an attempt whose commit was not answered the next one must learn in the same place. */
  private home: OutcomeLocation | undefined;
  /** Where records are looked for and written. Undefined: nobody else writes any, and this execution does without. */
  private completions: Completions | undefined;
  /** How many statements had been confirmed before the first transaction began that went on record. */
  private since = 0;
  /** Its place among the results, from the first time it went on record: it stays its own if that was rolled back. */
  private seq: number | undefined;

  constructor(
    private readonly execution: Execution,
    private readonly call: TransactionCall<Tx>,
  ) {}

  /** One attempt of the step: repeated as long as the database, and not the function, is what it fails by. */
  async attempt(scope: Scope & { step: StepScope }, startedAt: number): Promise<Outcome> {
    const { execution, call } = this;
    const { logger } = execution.engine;
    this.wasTried = true;
    const backoff = new Backoff(`Transaction "${call.name}" of workflow "${execution.workflowId}"`, logger);
    for (;;) {
      if (!execution.engine.startGate.isOpen) await whileWaiting(untilConfirmed(execution), scope.step);
      this.phase = 'opening';
      [this.isUnheard, this.isEnded] = [false, false];
      try {
        return await this.confirmed(await this.commit(scope, startedAt), startedAt, backoff);
      } catch (error) {
        if (error instanceof Unstorable) return error.outcome;
        if (!execution.running) throw error;
        if (this.isUnheard) continue;
        if (this.isOurs && isForbidden(error)) this.refuse(error);
        const settled = this.mayBeSettled(error) ? await this.settled(startedAt, backoff) : undefined;
        if (settled) return settled;
        if (error instanceof Beaten) await this.checkOwned(error instanceof Refused);
        if (!isUnanswered(error)) this.givePlaceBack();
        if (!this.isDatabaseFault(error) || !execution.running) throw error;
        if (!(error instanceof Beaten) && !isConflict(error)) judgeAgain(execution, call.datasource);
        await backoff.pause(error);
        if (!execution.running) throw error;
      }
    }
  }

  /**
   * Postgres answers the commit of a transaction in which a statement failed by a rollback, and libraries that hide the
   * answer take it for a commit: what they say they have committed is looked for.
   */
  private async confirmed(outcome: Outcome, startedAt: number, backoff: Backoff): Promise<Outcome> {
    const { datasource, mode, name } = this.call;
    if (mode.readOnly || datasource.confirmsCommit || (await this.settled(startedAt, backoff, outcome))) return outcome;
    throw rolledBackSilently(name);
  }

  /** It is certainly rolled back: results that came later need not wait until it is done in another way. */
  private givePlaceBack(): void {
    if (this.seq !== undefined) this.execution.deliveries.skip(this.seq);
    this.seq = undefined;
  }

  /**
   * A failure counts only once it is on record where a success would be: an execution that has lost the workflow may
   * still be in the function, and would commit what this one has reported as failed.
   */
  async settleFailure(outcome: Outcome): Promise<Outcome> {
    const { datasource, mode, name } = this.call;
    if (outcome.result.ok || mode.readOnly) return outcome;
    const { logger, clock } = this.execution.engine;
    const backoff = new Backoff(`Recording the failure of transaction "${name}"`, logger);
    while (this.execution.running) {
      try {
        if (!this.wasTried) await this.findHome();
        const { completions } = this;
        if (!completions) return outcome;
        const { error, serialization } = outcome;
        const row = { ...this.key, output: null, error, serialization, createdAt: clock.now() };
        const written = await datasource.transact({}, (tx) => completions.insert(datasource, tx, row));
        if (written) return outcome;
        const earlier = await this.settled(outcome.startedAt, backoff);
        if (earlier) return earlier;
        await this.checkOwned();
      } catch (error) {
        if (error instanceof Over) return outcome;
        if (!this.wasTried && isForbidden(error)) this.refuse(error);
        await backoff.pause(error);
      }
    }
    return outcome;
  }

  /** The outcome, with the place that it took in vain when it went on record the first time. */
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
      // A library whose transaction was ended by the function does not wait for the rest.
      working.catch(() => {});
      return working;
    });
    const outcome = await committed.catch((error: unknown) => {
      // Libraries that find nothing to roll back say that instead.
      if (this.isEnded) throw endedByItself(name);
      throw this.phase === 'recording' && isAborted(error) ? rolledBackSilently(name, error) : error;
    });
    if (!outcome || this.phase !== 'committing') throw endedByItself(name);
    return outcome;
  }

  private async workOf(scope: Scope & { step: StepScope }, startedAt: number): Promise<(tx: Tx) => Promise<Outcome>> {
    const { datasource, mode } = this.call;
    const body = (tx: Tx): Promise<Outcome> => this.body(tx, scope, startedAt);
    if (mode.readOnly) return (tx) => withoutWrites(datasource, tx, () => body(tx));
    const home = await this.findHome();
    const { after } = this.execution.frontier;
    if (this.seq === undefined) this.since = this.execution.engine.checkpoints.landings;
    return async (tx) => {
      const recorded = await this.recorded(tx, startedAt);
      if (recorded) return recorded;
      const isOpen = await openness(datasource, tx);
      const outcome = await body(tx);
      this.isEnded = !(await isOpen());
      if (this.isEnded) throw endedByItself(this.call.name);
      await this.putOnRecord(tx, outcome);
      return home.kind === 'record' ? outcome : this.withCheckpoint(tx, outcome, after);
    };
  }

  private async findHome(): Promise<OutcomeLocation> {
    this.home ??= await outcomeLocationOf(this.execution, this.call.datasource);
    const { home } = this;
    if (!home) {
      const [row] = await this.execution.engine.storage.workflows.get([this.execution.workflowId]);
      return this.lost(row ?? null);
    }
    // A first run knows that there is nothing of an earlier one, and its fence keeps it apart from later ones.
    if (home.kind === 'record') this.completions = home.completions;
    else if (this.isLater) this.completions ??= await home.earlier();
    return home;
  }

  private async body(tx: Tx, scope: Scope & { step: StepScope }, startedAt: number): Promise<Outcome> {
    // The database was waited for since the attempt began, and this process may have been stopped meanwhile. Not to be
    // waited for in an open transaction.
    this.isUnheard = !this.execution.engine.startGate.isOpen;
    if (this.isUnheard) throw new Error('It is not certain that this process is heard.');
    this.phase = 'running';
    const value = await enter(scope, () => this.call.fn(tx));
    this.phase = 'recording';
    const outcome = await succeeded(this.execution, stepResult(this.call.name), startedAt, value, this.call.maxBytes);
    if (!outcome.result.ok) throw new Unstorable(outcome);
    if (!this.execution.running) throw new Over();
    return outcome;
  }

  private async putOnRecord(tx: Tx, { output, serialization }: Outcome): Promise<void> {
    const row = { ...this.key, output, error: null, serialization, createdAt: this.execution.engine.clock.now() };
    const written = await this.completions?.insert(this.call.datasource, tx, row);
    if (written === false) throw new Beaten();
  }

  /**
   * The step's checkpoint, in the user's transaction and fenced like any other. A transaction with a single snapshot does not see
   * what other steps have committed since it began: it can name only what came `before` that. Nothing gets past a loss by
   * this, because the snapshot does not see a row of the workflow that was put back meanwhile either.
   */
  private async withCheckpoint(tx: Tx, outcome: Outcome, before: After): Promise<Outcome> {
    const { engine, claim, deliveries } = this.execution;
    const { stepNumber, name, datasource } = this.call;
    // Taken at the last moment: from here on results that come after it wait for it.
    this.seq ??= deliveries.takeSeq();
    const completedAt = engine.clock.now();
    const { output, error, serialization, childWorkflowId, startedAt } = outcome;
    const { workflowId, owner } = claim;
    const written = { output, error, serialization, childWorkflowId, startedAt, completedAt, completionSeq: this.seq };
    const requestedAfter = this.execution.requestedAfter(stepNumber);
    const { after } = this.execution.frontier;
    const row = { workflowId, owner, stepNumber, name, requestedAfter, ...written };
    const { steps } = engine.storage.inTransaction(borrowed(datasource, tx));
    const record = async (named: After): Promise<boolean> =>
      (await steps.recordMany(engine.writer.appName, [{ ...row, ...named }])).has(stepKey(row));
    if (
      !(await record(after)) &&
      (after === before || !(await hasOneSnapshot(datasource, tx)) || !(await record(before)))
    )
      throw new Refused();
    return { ...outcome, seq: this.seq, writtenAt: completedAt, since: this.since };
  }

  /** It may have had predecessors, with or without steps that they left. */
  private get isLater(): boolean {
    return this.execution.history !== undefined || this.execution.claim.attempt > 1;
  }

  private get key() {
    const { workflowId, incarnation } = this.execution.claim;
    const { stepNumber } = this.call;
    // A retry frees the number: what has another instant on record then is of the attempts before it, and is replaced.
    return { workflowId, stepNumber, startedAt: this.execution.isNewSince(stepNumber), incarnation };
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
      void engine.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
      throw new Over();
    }
  }

  /** What is under way is a statement of ours, and not of the function. */
  private get isOurs(): boolean {
    return !this.call.mode.readOnly && (this.phase === 'opening' || this.phase === 'recording');
  }

  /**
   * The records are not for this role. Nobody knows what an earlier execution, whose role had the rights, has committed:
   * neither to run the function nor to call it failed would be right, and to try again changes nothing.
   */
  private refuse(error: unknown): never {
    const { engine, claim } = this.execution;
    const { datasource, name } = this.call;
    const refusal = isHoldfastError(error) ? error : forbidden(datasource, name, error);
    if (!this.isLater) {
      // Its failure cannot go on record there either, and nobody else needs to meet it.
      this.completions = undefined;
      throw refusal;
    }
    const why = `${refusal.message} Then resume it.`;
    void engine.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
    throw new Over();
  }

  /** Whether an outcome may be on record although this failed: its own, or that of another execution. */
  private mayBeSettled(error: unknown): boolean {
    if (this.call.mode.readOnly || this.phase === 'opening') return false;
    return (
      error instanceof Beaten || !this.isDatabaseFault(error) || (this.phase === 'committing' && isUnanswered(error))
    );
  }

  private isDatabaseFault(error: unknown): boolean {
    if (error instanceof Beaten || isConflict(error)) return true;
    if (isReadOnlyServer(error)) return !this.call.mode.readOnly;
    // Before the record was looked for nobody knows whether an earlier execution committed: then no error counts.
    if (this.phase === 'opening') return isUnreachable(error) || this.isLater;
    if (this.phase === 'running') return isOutage(error);
    return isUnanswered(error) || isPutOff(error);
  }

  /**
   * What is on record by now, if anything. Asked until there is an answer: without one nobody knows. Whoever has just
   * put `own` there asks only whether it is.
   */
  private async settled(startedAt: number, backoff: Backoff, own?: Outcome): Promise<Outcome | undefined> {
    while (this.execution.running) {
      try {
        const checkpoint = this.home?.kind === 'checkpoint' ? await this.checkpointed(own) : undefined;
        if (checkpoint || !this.completions) return checkpoint;
        return await this.call.datasource.transact({}, (tx) => this.recorded(tx, startedAt));
      } catch (error) {
        if (error instanceof Over) throw error;
        await backoff.pause(error);
      }
    }
    throw new Over();
  }

  private async checkpointed(own?: Outcome): Promise<Outcome | undefined> {
    const { storage } = this.execution.engine;
    const { workflowId, owner } = this.execution.claim;
    const { stepNumber } = this.call;
    const [now] = await storage.steps.states([{ workflowId, stepNumber }]);
    if (now?.owner !== owner || now.status !== 'PENDING') return this.lost(now ?? null);
    if (!now.recorded) return undefined;
    // Under our owner token nobody else writes: no need to read it, among all steps of a workflow that may have many.
    if (own) return own;
    const step = (await storage.steps.history([workflowId])).find((each) => each.stepNumber === stepNumber);
    if (!step) return undefined;
    const outcome = await this.toOutcome(step, step.startedAt ?? 0);
    return {
      ...outcome,
      ...(step.completionSeq !== null && { seq: step.completionSeq }),
      writtenAt: step.completedAt ?? 0,
      since: this.since,
    };
  }

  /** Who was beaten by a record that is not of its workflow may be of one that was deleted, and would never get through. */
  private async checkOwned(isRefused = false): Promise<void> {
    const { engine, claim, workflowId } = this.execution;
    const read = () => engine.storage.workflows.get([workflowId]);
    const [row] = (await engine.untilAnswered('Reading whether a workflow is still owned', read)) ?? [];
    if (isRefused || row?.owner !== claim.owner || row.status !== 'PENDING') this.lost(row ?? null);
  }

  /** The workflow is no longer this execution's. */
  private lost(now: { readonly owner: string | null; readonly status: Superseding } | null): never {
    const { engine, claim, workflowId } = this.execution;
    engine.superseded(workflowId, claim.owner, { owner: now?.owner ?? null, status: now?.status });
    throw new Over();
  }
}

type Superseding = Parameters<Execution['engine']['superseded']>[2]['status'];
