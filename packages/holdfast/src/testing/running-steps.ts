import type { AttemptFacts, ProbedAttempt, StepProbe, StepStub } from '../engine/execution/step-probe.js';
import { HoldfastError } from '../model/errors.js';
import type { Stubs } from './stubs.js';

/** What the kit sees of the steps of one app, and puts in their place. What is counted is counted on after a restart. */
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
   * The attempt that has run longest, of those that are at work: one that waits for the app itself, or for a signal of the
   * test, is not.
   */
  atWork(): RunningAttempt | undefined {
    for (const attempt of this.running) if (attempt.isAtWork) return attempt;
    return undefined;
  }
}

export class RunningAttempt implements ProbedAttempt {
  /** In real time. */
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

/** How many attempts of each step the kit has seen begin, by workflow. */
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

/** The clock would stand still for ever, and the test would fail by its own time limit without a word of why. */
export function clockHeld({ step, workflowId, workflow, attempt }: AttemptFacts, patienceMs: number): HoldfastError {
  return new HoldfastError(
    'CLOCK_HELD',
    `The clock waits for step "${step}" of workflow "${workflowId}" (${workflow}), which has been running for more than ` +
      `${patienceMs} ms of real time. Time moves only while no step is at work. If the step blocks on purpose, let it wait ` +
      'for a signal of the test (signals.wait), or pass { whileRunning: true } to advance() or runUntil(). If it only is slow, raise ' +
      'testApp({ patience }). If it calls what is not there in a test, stub it: testApp({ stubs }).',
    { details: { step, workflowId, workflow, attempt, patienceMs } },
  );
}
