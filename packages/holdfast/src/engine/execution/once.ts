import { isHoldfastError } from '../../model/errors.js';
import type { NewStep, StepRecord } from '../../storage/contract/storage.js';
import type { Landing, WrittenWithEffects } from '../write/checkpoints.js';
import { sleepName } from './deliveries.js';
import type { DurableCall } from './durable-call.js';
import type { Execution } from './execution.js';
import { failedInstead, type Outcome } from './outcome.js';
import { warnOfLateFailure } from './unawaited.js';
import { mismatchAdvice, type Result, stalledError } from './workflow-errors.js';

/** Does the work. `begun` is what an earlier execution recorded of an operation that it did not see the end of. */
export type Live = (stepNumber: number, begun: StepRecord | undefined) => Promise<Outcome>;

/**
 * The one primitive that decides between replay and run; every durable operation is a few lines on top of it.
 *
 * A recorded operation is answered from its record, in its recorded turn. Any other is performed, its outcome
 * committed, and only then given to the code. An execution that has lost its workflow gets no answer at all.
 */
export function once<T>(execution: Execution, name: string, live: Live): Promise<T> {
  return onceAt(execution, execution.takeStepNumber(), name, live);
}

/** {@link once} for an operation that had to take its number earlier. */
export function onceAt<T>(execution: Execution, stepNumber: number, name: string, live: Live): Promise<T> {
  if (!execution.running) return execution.refuse();
  execution.ask(stepNumber);
  execution.openCalls++;
  execution.activity++;
  const call = execution.calls.begin<T>(name, stepNumber);
  const caller = call as DurableCall;
  const found = execution.history?.request(stepNumber, name);
  if (found && !found.matches) stall(execution, stepNumber, name);
  else {
    const done =
      found?.step && (isComplete(found.step) || execution.deliveries.placeSleep(found.step))
        ? replay(execution, found.step, caller)
        : perform(execution, { stepNumber, name, live, begun: found?.step }, caller);
    done.catch((error) => setAside(execution, stepNumber, name, error));
  }
  return call.promise;
}

/** Takes a step number for a row that an operation may write beside its own, and checks what is on record there. */
export function reserve(execution: Execution, name: string): number {
  const stepNumber = execution.takeStepNumber();
  const found = execution.history?.request(stepNumber, name);
  if (found && !found.matches) stall(execution, stepNumber, name);
  return stepNumber;
}

/** Answers a call of an execution that is over: with its cancellation, or not at all. */
function refuse(execution: Execution, caller: DurableCall): void {
  execution.refuse().catch((error) => caller.reject(error));
}

interface Operation {
  readonly stepNumber: number;
  readonly name: string;
  readonly live: Live;
  readonly begun: StepRecord | undefined;
}

function isComplete(step: StepRecord): boolean {
  return step.completionSeq !== null || step.name !== sleepName;
}

function stall(execution: Execution, stepNumber: number, name: string): void {
  const { claim, history, engine } = execution;
  const diff = history?.diff();
  const recorded = history?.peek(stepNumber)?.name;
  const why = `its code asks for step ${stepNumber} "${name}", but "${recorded}" is on record there. ${mismatchAdvice(stepNumber, diff, history?.missing)}`;
  const error = stalledError('NON_DETERMINISM', claim, why, { stepNumber, recorded, requested: name, diff });
  void engine.stall(claim.workflowId, claim.owner, error);
}

/** What nobody foresaw must not end the process, and must not be passed over. */
function setAside(execution: Execution, stepNumber: number, name: string, error: unknown): void {
  const { claim, engine } = execution;
  const why = `what came of step ${stepNumber} "${name}" could not be dealt with. ${engine.codecs.errors.describe(error)}`;
  void engine.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
}

/** The record's value is decoded when the code asks for it and handed over when its turn comes. */
async function replay(execution: Execution, step: StepRecord, caller: DurableCall): Promise<void> {
  const result = await readResult(execution, step).catch((error) => {
    const { claim, engine } = execution;
    const why = `the record of step ${step.stepNumber} "${step.name}" cannot be read. ${engine.codecs.errors.describe(error)}`;
    return engine.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
  });
  if (!execution.running) return refuse(execution, caller);
  if (!result) return;
  execution.deliveries.replay(step.stepNumber, delivery(execution, caller, result, step.completedAt ?? 0));
}

async function readResult(execution: Execution, step: StepRecord): Promise<Result> {
  const { codecs } = execution.engine;
  if (step.name === sleepName) return { ok: true, value: undefined };
  if (step.error !== null) return { ok: false, error: await codecs.for(step.serialization).decodeError(step.error) };
  if (step.output === null) return { ok: true, value: step.childWorkflowId ?? undefined };
  return { ok: true, value: await codecs.for(step.serialization).decode(step.output) };
}

async function perform(execution: Execution, operation: Operation, caller: DurableCall): Promise<void> {
  let outcome: Outcome;
  try {
    outcome = await operation.live(operation.stepNumber, operation.begun);
  } catch (error) {
    // Operations turn what the user's code throws into an outcome. What arrives here ended the wait itself.
    if (!execution.running) return refuse(execution, caller);
    execution.openCalls--;
    caller.reject(error);
    return;
  }
  if (!execution.running) {
    if (!outcome.result.ok) warnOfLateFailure(execution, caller, outcome.result.error);
    return refuse(execution, caller);
  }
  const objection = outcome.objection?.();
  if (objection !== undefined) outcome = await failedInstead(execution, outcome, objection);
  const seq = outcome.seq ?? execution.deliveries.takeSeq();
  if (outcome.writtenAt !== undefined) {
    const landed = { stepNumber: operation.stepNumber, completionSeq: seq, since: outcome.since ?? 0 };
    execution.frontier.confirm(landed, execution.engine.checkpoints.landing());
    return execution.deliveries.commit(seq, delivery(execution, caller, outcome.result, outcome.writtenAt));
  }
  const completedAt = execution.engine.clock.now();
  let written: WrittenWithEffects;
  try {
    written = await write(execution, operation, outcome, seq, completedAt);
  } catch (refusal) {
    outcome = await refusedOutcome(execution, outcome, refusal);
    written = await write(execution, operation, outcome, seq, completedAt);
  }
  if (typeof written === 'object') {
    execution.engine.superseded(execution.workflowId, execution.claim.owner, written);
  } else if (written === 'without-effects') {
    outcome = { ...outcome, result: { ok: false, error: outcome.errorIfAbsent?.value } };
  } else outcome.onCommit?.();
  if (!execution.running) return refuse(execution, caller);
  execution.deliveries.commit(seq, delivery(execution, caller, outcome.result, completedAt));
}

/** The database will not have this value. The step did run, so that it failed is what goes on record instead. */
async function refusedOutcome(execution: Execution, outcome: Outcome, error: unknown): Promise<Outcome> {
  if (!isHoldfastError(error, 'STORAGE_REFUSED')) throw error;
  return failedInstead(execution, outcome, error);
}

function write(
  execution: Execution,
  operation: Operation,
  outcome: Outcome,
  completionSeq: number,
  completedAt: number,
): Promise<WrittenWithEffects> {
  const { checkpoints } = execution.engine;
  const { workflowId, owner } = execution.claim;
  const { stepNumber } = operation;
  const { frontier } = execution;
  const since = checkpoints.landings;
  if (outcome.begun) {
    const end = { workflowId, owner, stepNumber, completedAt, completionSeq, ...frontier.after };
    return checkpoints.completeStep({ ...end, frontier, since });
  }
  const child = outcome.startsChild ? outcome.childWorkflowId : null;
  const { afterStep, afterSeq, afterAlso } = child === null ? frontier.after : frontier.afterChild(child);
  const row: Landing<NewStep> = {
    workflowId,
    owner,
    stepNumber,
    name: operation.name,
    output: outcome.output,
    error: outcome.error,
    serialization: outcome.serialization,
    childWorkflowId: outcome.childWorkflowId,
    startedAt: outcome.startedAt,
    completedAt,
    completionSeq,
    requestedAfter: execution.requestedAfter(stepNumber),
    afterStep,
    afterSeq,
    afterAlso,
    frontier,
    since,
  };
  const { effects, errorIfAbsent } = outcome;
  if (!effects?.length) return checkpoints.recordStep(row);
  return checkpoints.recordEffects({ ...row, effects, errorIfAbsent: errorIfAbsent?.text ?? null });
}

function delivery(execution: Execution, caller: DurableCall, result: Result, completedAt: number) {
  return {
    deliver: () => {
      execution.currentTime = Math.max(execution.currentTime, completedAt);
      execution.openCalls--;
      execution.activity++;
      if (result.ok) caller.resolve(result.value);
      else {
        execution.firstFailure ??= execution.deliveries.lastSeq;
        caller.reject(result.error);
      }
    },
    cancelled: (error: Error) => caller.reject(error),
  };
}
