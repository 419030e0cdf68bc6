import type { AttemptFacts, ProbedAttempt, StepProbe, StepStub } from '../engine/execution/step-probe.js';
import { HoldfastError } from '../model/errors.js';
import type { Stubs } from './stubs.js';

/** The running steps of one app, and the stubs that replace steps. The attempt counts continue after a restart. */
export class RunningSteps implements StepProbe {
  private readonly running = new Set<RunningAttempt>();

  constructor(
    private readonly stubs: Stubs,
    private readonly counts: AttemptCounts,
  ) {}

  begin(facts: AttemptFacts): ProbedAttempt {
    const attempt = new RunningAttempt(facts, () => this.running.delete(attempt));
    this.running.add(attempt);
    this.counts.add(facts);
    return attempt;
  }

  stubOf(stepName: string): StepStub | undefined {
    return this.stubs.take(stepName);
  }

  /**
   * Returns the longest-running attempt that is at work. An attempt that waits for the app itself, or for a signal of
   * the test, is not at work.
   */
  atWork(): RunningAttempt | undefined {
    for (const attempt of this.running) if (attempt.isAtWork) return attempt;
    return undefined;
  }
}

export class RunningAttempt implements ProbedAttempt {
  /** Start of the attempt on the monotonic clock of the process, in milliseconds. */
  readonly since = performance.now();
  private waits = 0;

  constructor(
    readonly facts: AttemptFacts,
    readonly end: () => void,
  ) {}

  get isAtWork(): boolean {
    return this.waits === 0 && this.facts.isWanted();
  }

  wait(): () => void {
    this.waits++;
    return () => {
      this.waits--;
    };
  }
}

/** Counts the attempts of each step, by workflow. */
export class AttemptCounts {
  private readonly seen = new Map<string, number>();

  add({ workflowId, stepNumber }: AttemptFacts): void {
    this.seen.set(keyOf(workflowId, stepNumber), this.of(workflowId, stepNumber) + 1);
  }

  of(workflowId: string, stepNumber: number): number {
    return this.seen.get(keyOf(workflowId, stepNumber)) ?? 0;
  }
}

function keyOf(workflowId: string, stepNumber: number): string {
  return `${stepNumber} ${workflowId}`;
}

/**
 * Returns the error for a step that blocks the virtual clock. Without it, the test would only fail by its own timeout.
 */
export function clockHeldError(
  { step, workflowId, workflow, attempt }: AttemptFacts,
  patienceMs: number,
): HoldfastError {
  return new HoldfastError(
    'CLOCK_HELD',
    `The clock waits for step "${step}" of workflow "${workflowId}" (${workflow}), which has been running for more ` +
      `than ${patienceMs} ms of real time. Time moves only while no step is at work. If the step blocks on purpose, ` +
      'let it wait for a signal of the test (signals.wait), or pass { whileRunning: true } to advance() or ' +
      'runUntil(). If the step is slow, raise testApp({ patience }). If the step calls a service that tests do not ' +
      'have, replace the step with a stub: testApp({ stubs }).',
    { details: { step, workflowId, workflow, attempt, patienceMs } },
  );
}
