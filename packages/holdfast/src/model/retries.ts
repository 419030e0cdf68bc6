/**
 * The record of one retry of a workflow: the state that the retry found, and the point from which the code runs again.
 *
 * A retry frees step numbers. Other data may be stored under such a number: the ID of a child, or the record of a
 * transaction in the application's database. This data belongs to the step that had the number before the retry, and
 * the new step must not use it. Each step therefore belongs to the last retry that came before it (`retryBefore`). A
 * step comes after a retry in two cases: the retry freed its number, or the code called the step after it had received
 * a result that the retry did not keep.
 *
 * A step that was called before the failure, and was still running then, belongs to no later retry. The new execution
 * calls the same step again, and finds the child that the step started, or the transaction that it committed.
 */
export interface RetryMark {
  /** The time of the retry. It is later than the creation of the workflow and its earlier retries. */
  readonly at: number;
  /** The executor that made the retry. Empty if a client made it. */
  readonly by: string;
  /** The unique ID of this retry. */
  readonly token: string;
  /** The step from which the caller wanted to retry, or null if the caller named none. */
  readonly fromStep: number | null;
  /** The first completion number after the results that the retry kept. */
  readonly cut: number;
  /** The steps that the retry removed from the history. */
  readonly dropped: readonly { readonly stepNumber: number; readonly name: string }[];
  /** When the workflow had failed. The next two fields are the stored error. */
  readonly failedAt: number | null;
  readonly error: string | null;
  readonly serialization: string | null;
}

/**
 * A step that was called after another step had failed, and had no result yet when its workflow failed. The step may
 * be a refund that was paid but not recorded. A retry from an earlier step would pay the refund again, or continue as
 * if it had not been paid.
 */
export interface UnderWay {
  readonly stepNumber: number;
  readonly name: string;
  readonly requestedAfter: number;
}

/** Parses the stored list. Null means that no step was running. */
export function parseUnderWay(text: string | null): readonly UnderWay[] {
  return text === null ? [] : (JSON.parse(text) as UnderWay[]);
}

/** Parses the stored list. Null means that the workflow was never retried. */
export function parseRetries(text: string | null): readonly RetryMark[] {
  return text === null ? [] : (JSON.parse(text) as RetryMark[]);
}

/**
 * Returns the last retry before a step that the code called after the result `requestedAfter`. Number 0 means none.
 */
export function retryBefore(
  retries: readonly RetryMark[],
  stepNumber: number,
  requestedAfter: number,
): { readonly number: number; readonly at: number | undefined } {
  for (let number = retries.length; number > 0; number--) {
    const { at, cut, dropped } = retries[number - 1] as RetryMark;
    if (requestedAfter >= cut || dropped.some((each) => each.stepNumber === stepNumber)) return { number, at };
  }
  return { number: 0, at: undefined };
}
