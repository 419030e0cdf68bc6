/**
 * Looks in on every attempt of a step from outside, and may put another function in the place of the step's own:
 * `holdfast/testing` moves its clock only while no attempt is under way, and stubs steps. Production has none.
 */
export interface StepProbe {
  /** An attempt of a step begins. */
  begin(attempt: AttemptFacts): ProbedAttempt;
  /** The function that runs instead of the step's own, if there is one. It gets the arguments of the call. */
  stubOf(stepName: string): StepStub | undefined;
}

export type StepStub = (...args: readonly unknown[]) => unknown;

export interface AttemptFacts {
  readonly workflowId: string;
  readonly workflow: string;
  readonly step: string;
  readonly stepNumber: number;
  readonly attempt: number;
  /** False as soon as the workflow has ended or is another owner's: the attempt's result will go nowhere. */
  isWanted(): boolean;
}

export interface ProbedAttempt {
  /** The attempt waits for something that the clock brings about, such as another workflow. Returns how to end that. */
  wait(): () => void;
  readonly end: () => void;
}
