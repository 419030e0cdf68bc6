import { isDeepStrictEqual } from 'node:util';
import { byCompletion } from '../engine/execution/deliveries.js';
import { sleepName } from '../engine/execution/sleep-record.js';
import { isError } from '../model/errors.js';
import type { UnderWay } from '../model/retries.js';
import type { StepRecord } from '../storage/contract/storage.js';

/** The history of a workflow that has failed. */
export interface FailedHistory {
  readonly steps: readonly StepRecord[];
  /** Steps without a record that were running when the workflow failed, and may have had an effect. */
  readonly underWay: readonly UnderWay[];
}

/** The records that a retry removes so that a step runs again. */
export interface RetryPlan {
  readonly dropped: readonly StepRecord[];
  /** The completion number from which on results differ from those before the failure (model/retries.ts). */
  readonly cut: number;
  /** Dropped steps that may have had an effect, even if they failed, and would have it again in the next run. */
  readonly repeated: readonly Repeated[];
}

type Repeated = Pick<UnderWay, 'stepNumber' | 'name'>;

/** The step name under which a received message is recorded. */
export const receiveName = 'DBOS.recv';
/** The step name under which the result of a child is recorded. */
export const resultName = 'DBOS.getResult';

/** Steps that only read or wait, or write the same value again. Running them twice does no harm. */
const harmless = new Set([
  ...[sleepName, resultName, receiveName, 'DBOS.getEvent', 'DBOS.readStream', 'getStatus'],
  ...['DBOS.setEvent', 'DBOS.writeStream', 'DBOS.closeStream'],
]);

/** Steps with a timeout, which is recorded as a sleep under the next step number. */
const timed = new Set([receiveName, 'DBOS.getEvent']);

/**
 * Decides which steps a retry keeps and which it drops, so that the workflow continues as if `first` had not
 * completed.
 *
 * 1. Steps that the code called before it received the result of `first` stay. The code calls them again under the
 *    same numbers, and their effects have happened. The other branches of a `Promise.all` or `allSettled` therefore
 *    keep their results.
 * 2. Steps that the code called after that result are dropped: with another result, the code may take another path
 *    and give their numbers to other steps.
 * 3. Of the steps that stay by rule 1, those that failed after `first` are dropped, because they would fail the
 *    workflow again at once.
 *
 * Records of DBOS, and records older than the column `requested_after`, do not show when the code called the step. For
 * these the step number decides: a step is dropped if its number is higher than that of `first` and of all steps that
 * stay by rule 1. Step numbers are in the order of the calls, so this rule is safe, but it drops more steps. A step
 * below the highest kept step may not be dropped: it was called first, and its result may be the reason why the code
 * called the kept step.
 */
export function planRetry({ steps, underWay }: FailedHistory, first: StepRecord | undefined): RetryPlan {
  if (!first) return { dropped: [], cut: highestSeq(steps) + 1, repeated: [] };
  const place = first.completionSeq;
  const isCalledBefore = ({ requestedAfter }: StepRecord): boolean =>
    place !== null && requestedAfter !== null && requestedAfter < place;
  const last = [first, ...steps.filter(isCalledBefore)].reduce((max, step) => Math.max(max, step.stepNumber), 0);
  const mustDrop = (step: StepRecord): boolean => {
    if (step.stepNumber === first.stepNumber) return true;
    const failedLater = place !== null && step.error !== null && (step.completionSeq ?? -1) > place;
    if (failedLater) return true;
    if (place === null || step.requestedAfter === null) return step.stepNumber > last;
    return !isCalledBefore(step);
  };
  const droppedSteps = new Set(steps.filter(mustDrop));
  for (const step of steps) if (isTimerOfAny(step, droppedSteps)) droppedSteps.add(step);
  const dropped = steps.filter((step) => droppedSteps.has(step));
  // If `first` has no completion number (an unfinished sleep, for example), the first dropped result is the limit.
  const before = place ?? lowestSeq(dropped);
  const kept = steps.filter((step) => step.completionSeq !== null && step.completionSeq < before);
  // A failed step that the code called before it saw this failure cannot be a reaction to it, such as a refund. Such a
  // step just runs again.
  const isReaction = ({ requestedAfter }: StepRecord): boolean => place !== null && (requestedAfter ?? -1) >= place;
  const done = dropped.filter((step) => step !== first && (step.error === null || isReaction(step)));
  const isOnRecord = new Set(steps.map(({ stepNumber }) => stepNumber));
  const begun = underWay.filter(
    ({ stepNumber, requestedAfter }) => !isOnRecord.has(stepNumber) && (place === null || requestedAfter >= place),
  );
  const repeated = [...done, ...begun].filter((each) => !isHarmless(each));
  return { dropped, cut: highestSeq(kept) + 1, repeated };
}

/** Returns true if the step records the timeout of a dropped wait. */
function isTimerOfAny(step: StepRecord, droppedSteps: ReadonlySet<StepRecord>): boolean {
  if (step.name !== sleepName) return false;
  return [...droppedSteps].some(({ stepNumber, name }) => stepNumber === step.stepNumber - 1 && timed.has(name));
}

function isHarmless({ name }: Repeated): boolean {
  return harmless.has(name) || name.startsWith('DBOS.patch-');
}

function highestSeq(steps: readonly StepRecord[]): number {
  return steps.reduce((highest, { completionSeq }) => Math.max(highest, completionSeq ?? -1), -1);
}

function lowestSeq(steps: readonly StepRecord[]): number {
  return steps.reduce(
    (lowest, { completionSeq }) => Math.min(lowest, completionSeq ?? lowest),
    Number.POSITIVE_INFINITY,
  );
}

/** A recorded step that failed, with its error as the code received it. */
export interface FailedStep {
  readonly step: StepRecord;
  readonly error: unknown;
}

/**
 * Returns the step whose error ended the workflow:
 *
 * 1. The last step with the workflow's error. Otherwise a step with the `cause` of that error, or with one of its
 *    `errors`. If several steps match, the first of them, so that all of them run again.
 * 2. Otherwise the last step that failed, if no step that has run since would be repeated.
 * 3. Otherwise undefined: the function itself failed, after its last step.
 *
 * If other steps failed concurrently, returns the first of them, so that all of them run again: a failed step that
 * stays would fail the workflow again at once. This does not apply if it would repeat steps other than failures,
 * because the code has then handled the first failure.
 */
export function failedStep(
  past: FailedHistory,
  failures: readonly FailedStep[],
  error: unknown,
): StepRecord | undefined {
  const latestFirst = [...failures].sort((a, b) => byCompletion(b.step, a.step));
  for (let level: unknown[] = [error], depth = 0; level.length > 0 && depth < 8; depth++) {
    const found = level.flatMap((each) => latestFirst.find((failure) => isSame(failure.error, each))?.step ?? []);
    const [first] = found.sort(byCompletion);
    if (first) return firstConcurrent(first, past, failures) ?? first;
    level = level.flatMap(partsOf);
  }
  const last = latestFirst[0]?.step;
  return last && repeatsNothing(past, last) ? (firstConcurrent(last, past, failures) ?? last) : undefined;
}

function repeatsNothing(past: FailedHistory, first: StepRecord): boolean {
  return planRetry(past, first).repeated.length === 0;
}

/** Returns the first step that failed before the given step, but after the code had called the given step. */
function firstConcurrent(
  failed: StepRecord,
  past: FailedHistory,
  failures: readonly FailedStep[],
): StepRecord | undefined {
  const { requestedAfter } = failed;
  const isConcurrent = (each: StepRecord): boolean =>
    requestedAfter !== null && (each.completionSeq ?? -1) > requestedAfter && byCompletion(each, failed) < 0;
  const steps = failures.map(({ step }) => step).filter((each) => isConcurrent(each) && repeatsNothing(past, each));
  return steps.sort(byCompletion)[0];
}

function partsOf(error: unknown): unknown[] {
  if (typeof error !== 'object' || error === null) return [];
  const { cause, errors } = error as { cause?: unknown; errors?: unknown };
  return [...(Array.isArray(errors) ? errors : []), ...(cause === undefined ? [] : [cause])];
}

/**
 * Compares two values that were read from the database, where their identity is lost. Errors are compared by name,
 * message and code, other values by their content.
 */
function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return Object.is(a, b);
  const [one, other] = [a, b] as Record<string, unknown>[];
  if (!isError(one)) return isDeepStrictEqual(one, other);
  return ['name', 'message', 'code'].every((key) => Object.is(one?.[key], other?.[key]));
}
