/**
 * What a workflow keeps of its retries: what each of them found, and from where on it let the code run anew.
 *
 * A retry frees step numbers. What is kept elsewhere under such a number (the ID of a child, the record of a transaction in
 * the application's database) is of the step that had the number before, and must not pass for the new one's. So each step
 * belongs to the last retry that came before it ({@link retryBefore}): its number was freed, or the code had seen more, when it
 * asked for the step, than what the retry left of the results up to the failure.
 *
 * A step that was asked for before the failure, and was still running then, belongs to no retry that came later: the new execution
 * asks for the very same step, and finds the child that it started, or the transaction that it committed.
 */
export interface RetryMark {
  /** When; later than the workflow's creation and its earlier retries. */
  readonly at: number;
  /** The executor that did it; empty: a client. */
  readonly by: string;
  /** Names this retry and no other. */
  readonly token: string;
  /** The step that it began with, if it was told one. */
  readonly fromStep: number | null;
  /** The first place of a result beyond what is as it was before the failure. */
  readonly cut: number;
  /** The steps that it took off the record. */
  readonly dropped: readonly { readonly stepNumber: number; readonly name: string }[];
  /** How the workflow had ended. */
  readonly failedAt: number | null;
  readonly error: string | null;
  readonly serialization: string | null;
}

/**
 * A step that had no result yet when its workflow failed, and was asked for after another had failed. It may be a refund that was
 * paid and did not get on record any more: a retry that begins before it would pay it again, or go on as if it were not paid.
 */
export interface UnderWay {
  readonly stepNumber: number;
  readonly name: string;
  readonly requestedAfter: number;
}

/** Null: nothing was. */
export function parseUnderWay(text: string | null): readonly UnderWay[] {
  return text === null ? [] : (JSON.parse(text) as UnderWay[]);
}

/** Null: it was never retried. */
export function parseRetries(text: string | null): readonly RetryMark[] {
  return text === null ? [] : (JSON.parse(text) as RetryMark[]);
}

/** The last retry before a step that the code asked for after this result. Number 0: none. */
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
