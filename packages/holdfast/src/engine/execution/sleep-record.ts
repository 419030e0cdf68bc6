import type { StepRecord } from '../../storage/contract/storage.js';

/**
 * The step name of a sleep. A sleep is recorded with its wake time when it begins, and takes its place when it ends.
 */
export const sleepName = 'DBOS.sleep';

/** Returns true if the step is a sleep that has begun, and whose end is not recorded. */
export function isSleepUnderWay(step: StepRecord): boolean {
  return step.name === sleepName && step.completionSeq === null;
}

/** Returns the stored text of a step's result. The text of a sleep is its wake time, which is not its result. */
export function storedResult(step: StepRecord): string | null {
  return step.name === sleepName ? null : step.output;
}
