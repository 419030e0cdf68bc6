import { isHoldfastError } from '../../model/errors.js';
import type { NewStep, StepRecord } from '../../storage/contract/storage.js';
import type { TrackedRow, WrittenWithEffects } from '../write/confirm-writes.js';
import type { DurableCall } from './durable-call.js';
import type { Execution } from './execution.js';
import { failedInstead, type Outcome } from './outcome.js';
import { isSleepUnderWay, storedResult } from './sleep-record.js';
import { warnOfLateFailure } from './unawaited.js';
import { mismatchAdvice, type Result, stalledError } from './workflow-errors.js';

/**
 * Does the work of an operation. `begun` is the record of an operation that an earlier execution began and did not end.
 */
export type Live = (stepNumber: number, begun: StepRecord | undefined) => Promise<Outcome>;

/**
 * The one primitive that decides between replay and run. Every durable operation is a few lines on top of it.
 *
 * A recorded operation returns its recorded outcome, in the recorded order. Any other operation runs: its outcome is
 * committed, and only then given to the code. A call of an execution that has lost its workflow never settles.
 */
export function once<T>(execution: Execution, name: string, live: Live): Promise<T> {
  return onceAt(execution, execution.takeStepNumber(), name, live);
}

/** {@link once} for an operation that had to take its step number earlier. */
export function onceAt<T>(execution: Execution, stepNumber: number, name: string, live: Live): Promise<T> {
  if (!execution.running) return execution.refuse();
  execution.beginCall(stepNumber);
  const call = execution.calls.begin<T>(name, stepNumber);
  const caller = call as DurableCall;
  const found = execution.history?.request(stepNumber, name);
  if (found && !found.matches) stall(execution, stepNumber, name);
  else {
    const done =
      found?.step && (!isSleepUnderWay(found.step) || execution.deliveries.placeDbosSleep(found.step))
        ? replay(execution, found.step, caller)
        : perform(execution, { stepNumber, name, live, begun: found?.step }, caller);
    done.catch((error) => stallAfterError(execution, stepNumber, name, error));
  }
  return call.promise;
}

/**
 * Takes a step number for a row that an operation may write beside its own row. Stalls the workflow if the history has
 * another step under that number.
 */
export function reserveStepNumber(execution: Execution, name: string): number {
  const stepNumber = execution.takeStepNumber();
  const found = execution.history?.request(stepNumber, name);
  if (found && !found.matches) stall(execution, stepNumber, name);
  return stepNumber;
}

/** Answers a call of an execution that has ended: with its cancellation error, or never. */
function refuse(execution: Execution, caller: DurableCall): void {
  execution.refuse().catch((error) => caller.reject(error));
}

interface Operation {
  readonly stepNumber: number;
  readonly name: string;
  readonly live: Live;
  readonly begun: StepRecord | undefined;
}

function stall(execution: Execution, stepNumber: number, name: string): void {
  const { claim, history, engine } = execution;
  const diff = history?.diff();
  const recorded = history?.peek(stepNumber)?.name;
  const advice = mismatchAdvice(stepNumber, diff, history?.missing);
  const why = `its code calls step ${stepNumber} "${name}", but its history has "${recorded}" there. ${advice}`;
  const error = stalledError('NON_DETERMINISM', claim, why, { stepNumber, recorded, requested: name, diff });
  void engine.executions.stall(claim.workflowId, claim.owner, error);
}

/** Stalls the workflow after an unexpected error. Such an error must not end the process, and must not go unnoticed. */
function stallAfterError(execution: Execution, stepNumber: number, name: string, error: unknown): void {
  const { claim, engine } = execution;
  const cause = engine.codecs.errors.describe(error);
  const why = `the outcome of step ${stepNumber} "${name}" could not be processed. ${cause}`;
  void engine.executions.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
}

/**
 * Answers a call from its record. The value is decoded when the code makes the call, and delivered in the recorded
 * order.
 */
async function replay(execution: Execution, step: StepRecord, caller: DurableCall): Promise<void> {
  const result = await readResult(execution, step).catch((error) => {
    const { claim, engine } = execution;
    const cause = engine.codecs.errors.describe(error);
    const why = `the record of step ${step.stepNumber} "${step.name}" cannot be read. ${cause}`;
    return engine.executions.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
  });
  if (!execution.running) return refuse(execution, caller);
  if (!result) return;
  execution.deliveries.replay(step.stepNumber, delivery(execution, caller, result, step.completedAt ?? 0));
}

async function readResult(execution: Execution, step: StepRecord): Promise<Result> {
  const { codecs } = execution.engine;
  if (step.error !== null) return { ok: false, error: await codecs.for(step.serialization).decodeError(step.error) };
  const text = storedResult(step);
  if (text === null) return { ok: true, value: step.childWorkflowId ?? undefined };
  return { ok: true, value: await codecs.for(step.serialization).decode(text) };
}

async function perform(execution: Execution, operation: Operation, caller: DurableCall): Promise<void> {
  let outcome: Outcome;
  try {
    outcome = await operation.live(operation.stepNumber, operation.begun);
  } catch (error) {
    // Operations turn the errors of user code into outcomes. An error that arrives here comes from the wait itself, and
    // is not recorded.
    if (!execution.running) return refuse(execution, caller);
    execution.endCall();
    caller.reject(error);
    return;
  }
  if (!execution.running) {
    if (!outcome.result.ok) warnOfLateFailure(execution, caller, outcome.result.error);
    return refuse(execution, caller);
  }
  const objection = outcome.finalCheck?.();
  if (objection !== undefined) outcome = await failedInstead(execution, outcome, objection);
  const seq = outcome.seq ?? execution.deliveries.takeSeq();
  if (outcome.writtenAt !== undefined) {
    const landed = { stepNumber: operation.stepNumber, completionSeq: seq, since: outcome.since ?? 0 };
    execution.frontier.confirm(landed, execution.engine.checkpoints.countConfirmed());
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
    execution.engine.executions.supersede(execution.workflowId, execution.claim.owner, written);
  } else if (written === 'without-effects') {
    outcome = { ...outcome, result: { ok: false, error: outcome.errorIfAbsent?.value } };
  } else outcome.onCommit?.();
  if (!execution.running) return refuse(execution, caller);
  execution.deliveries.commit(seq, delivery(execution, caller, outcome.result, completedAt));
}

/** Returns the outcome to record if the database refuses a value. The step did run, so it is recorded as failed. */
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
  const since = checkpoints.confirmedCount;
  if (outcome.begun) {
    const end = { workflowId, owner, stepNumber, completedAt, completionSeq, ...frontier.after };
    return checkpoints.completeStep({ ...end, frontier, since });
  }
  const child = outcome.startsChild ? outcome.childWorkflowId : null;
  const { afterStep, afterSeq, afterAlso } = child === null ? frontier.after : frontier.afterChild(child);
  const row: TrackedRow<NewStep> = {
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
      execution.endCall();
      if (result.ok) caller.resolve(result.value);
      else {
        execution.firstFailure ??= execution.deliveries.lastSeq;
        caller.reject(result.error);
      }
    },
    cancelled: (error: Error) => caller.reject(error),
  };
}
