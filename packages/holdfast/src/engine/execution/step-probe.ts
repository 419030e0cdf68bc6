/**
 * Observes every attempt of a step, and may replace the function of a step. `holdfast/testing` uses a probe to move its
 * clock only while no attempt is running, and to stub steps. Production has no probe.
 */
export interface StepProbe {
  /** Called when an attempt of a step begins. */
  begin(attempt: AttemptFacts): ProbedAttempt;
  /**
   * Returns the function that runs instead of the step's own function, if there is one. It gets the arguments of the
   * call.
   */
  stubOf(stepName: string): StepStub | undefined;
}

export type StepStub = (...args: readonly unknown[]) => unknown;

export interface AttemptFacts {
  readonly workflowId: string;
  readonly workflow: string;
  readonly step: string;
  readonly stepNumber: number;
  readonly attempt: number;
  /** False once the workflow has ended or has another owner: the result of the attempt is then discarded. */
  isWanted(): boolean;
}

export interface ProbedAttempt {
  /**
   * Notes that the attempt waits for something that depends on the clock, such as another workflow. Returns the
   * function that ends the wait.
   */
  wait(): () => void;
  readonly end: () => void;
}
