import { isDeepStrictEqual } from 'node:util';
import { byCompletion, sleepName } from '../engine/execution/deliveries.js';
import { isError } from '../model/errors.js';
import type { UnderWay } from '../model/retries.js';
import type { StepRecord } from '../storage/contract/storage.js';

/** What is known of a workflow that has failed. */
export interface Past {
  readonly steps: readonly StepRecord[];
  /** What may have been done beside it. */
  readonly underWay: readonly UnderWay[];
}

/** What a retry takes off the record so that a step is run again. */
export interface RetryPlan {
  readonly dropped: readonly StepRecord[];
  /** The first place of a result beyond what is as it was before the failure (model/retries.ts). */
  readonly cut: number;
  /** What would go that may have done something (a step that failed may, too), and does it each time it is run. */
  readonly repeated: readonly Repeated[];
}

type Repeated = Pick<UnderWay, 'stepNumber' | 'name'>;

/** Name under which a message received is on record. */
export const receiveName = 'DBOS.recv';
/** Name under which a child's result is on record. */
export const resultName = 'DBOS.getResult';

/** What only reads or waits, or says again what it said: done twice, it does no harm. */
const harmless = new Set([
  ...[sleepName, resultName, receiveName, 'DBOS.getEvent', 'DBOS.readStream', 'getStatus'],
  ...['DBOS.setEvent', 'DBOS.writeStream', 'DBOS.closeStream'],
]);

/** Operations that have the end of their time on record as a sleep, under the number after their own. */
const timed = new Set([receiveName, 'DBOS.getEvent']);

/**
 * Which steps go, and which stay, when the workflow is to go on as if `first` had not ended.
 *
 * 1. What the code asked for before it was given the result of `first` stays: it asks for that again, under the same numbers, and its
 *    effects have happened. So the other branches of a `Promise.all` or `allSettled` keep what they have done.
 * 2. What it asked for afterwards goes, because the code may take another way now and give these numbers to other steps.
 * 3. Of what stays by (1), steps go that failed after `first`: they would fail the workflow again, at once.
 *
 * Where a record does not tell when it was asked for (it is of DBOS, or older than that column), its number decides: whatever has a higher
 * one than `first` goes, and than all that stays by (1). That repeats more, and is as exact: numbers are given in the order of the calls.
 * What has a lower one than something that stays was asked for before that, and its result may be why that was asked for.
 */
export function planRetry({ steps, underWay }: Past, first: StepRecord | undefined): RetryPlan {
  if (!first) return { dropped: [], cut: highestSeq(steps) + 1, repeated: [] };
  const place = first.completionSeq;
  const isAskedBefore = ({ requestedAfter }: StepRecord): boolean =>
    place !== null && requestedAfter !== null && requestedAfter < place;
  const last = [first, ...steps.filter(isAskedBefore)].reduce((most, step) => Math.max(most, step.stepNumber), 0);
  const goes = (step: StepRecord): boolean => {
    if (step.stepNumber === first.stepNumber) return true;
    const failedLater = place !== null && step.error !== null && (step.completionSeq ?? -1) > place;
    if (failedLater) return true;
    if (place === null || step.requestedAfter === null) return step.stepNumber > last;
    return !isAskedBefore(step);
  };
  const gone = new Set(steps.filter(goes));
  for (const step of steps) if (isTimerOfAny(step, gone)) gone.add(step);
  const dropped = steps.filter((step) => gone.has(step));
  // Of one without a place, a sleep that had not ended, say: what the code had seen before the first of those that go.
  const before = place ?? lowestSeq(dropped);
  const kept = steps.filter((step) => step.completionSeq !== null && step.completionSeq < before);
  // What failed before the code knew of this failure is not about it, and is run again with it.
  const isAbout = ({ requestedAfter }: StepRecord): boolean => place !== null && (requestedAfter ?? -1) >= place;
  const done = dropped.filter((step) => step !== first && (step.error === null || isAbout(step)));
  const isOnRecord = new Set(steps.map(({ stepNumber }) => stepNumber));
  const begun = underWay.filter(
    ({ stepNumber, requestedAfter }) => !isOnRecord.has(stepNumber) && (place === null || requestedAfter >= place),
  );
  const repeated = [...done, ...begun].filter((each) => !isHarmless(each));
  return { dropped, cut: highestSeq(kept) + 1, repeated };
}

/** Of a wait that is begun anew, its end too. */
function isTimerOfAny(step: StepRecord, gone: ReadonlySet<StepRecord>): boolean {
  if (step.name !== sleepName) return false;
  return [...gone].some(({ stepNumber, name }) => stepNumber === step.stepNumber - 1 && timed.has(name));
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

/** A recorded step that failed, with its error as the code was given it. */
export interface FailedStep {
  readonly step: StepRecord;
  readonly error: unknown;
}

/**
 * The step whose error ended the workflow:
 *
 * 1. The last one whose error is the workflow's, or else one that this was made of (its `cause`, or one of its `errors`: of those
 *    the first, so that all of them are run again).
 * 2. Or else the last that failed, if nothing has been done since that running it again would repeat.
 * 3. Or else none: the workflow failed by itself, after its last step.
 *
 * If others failed beside it, the first of them, so that all are run again: one that stays would fail the workflow at once. Not if that
 * would repeat more than failures: then it was dealt with.
 */
export function failedStep(past: Past, failures: readonly FailedStep[], error: unknown): StepRecord | undefined {
  const latestFirst = [...failures].sort((a, b) => byCompletion(b.step, a.step));
  for (let level: unknown[] = [error], depth = 0; level.length > 0 && depth < 8; depth++) {
    const found = level.flatMap((each) => latestFirst.find((failure) => isSame(failure.error, each))?.step ?? []);
    const [first] = found.sort(byCompletion);
    if (first) return firstBeside(first, past, failures) ?? first;
    level = level.flatMap(partsOf);
  }
  const last = latestFirst[0]?.step;
  return last && repeatsNothing(past, last) ? (firstBeside(last, past, failures) ?? last) : undefined;
}

function repeatsNothing(past: Past, first: StepRecord): boolean {
  return planRetry(past, first).repeated.length === 0;
}

/** The first step to fail of those that failed before this one, when the code had asked for this one already. */
function firstBeside(failed: StepRecord, past: Past, failures: readonly FailedStep[]): StepRecord | undefined {
  const { requestedAfter } = failed;
  const isBeside = (each: StepRecord): boolean =>
    requestedAfter !== null && (each.completionSeq ?? -1) > requestedAfter && byCompletion(each, failed) < 0;
  const beside = failures.map(({ step }) => step).filter((each) => isBeside(each) && repeatsNothing(past, each));
  return beside.sort(byCompletion)[0];
}

function partsOf(error: unknown): unknown[] {
  if (typeof error !== 'object' || error === null) return [];
  const { cause, errors } = error as { cause?: unknown; errors?: unknown };
  return [...(Array.isArray(errors) ? errors : []), ...(cause === undefined ? [] : [cause])];
}

/** Both as they were read back: their identity is lost. What is no error has no message to be told by. */
function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return Object.is(a, b);
  const [one, other] = [a, b] as Record<string, unknown>[];
  if (!isError(one)) return isDeepStrictEqual(one, other);
  return ['name', 'message', 'code'].every((key) => Object.is(one?.[key], other?.[key]));
}
