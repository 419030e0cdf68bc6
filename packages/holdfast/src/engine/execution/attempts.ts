import { describeError, HoldfastError } from '../../model/errors.js';
import type { AttemptChange } from '../../storage/contract/storage.js';
import type { ClaimedWorkflow, Engine } from '../engine.js';
import type { Superseded } from '../write/confirm-writes.js';
import type { Frontier } from './frontier.js';

/** The part of an execution that attempts need. */
interface AttemptHost {
  readonly engine: Engine;
  readonly claim: ClaimedWorkflow;
  readonly running: boolean;
  readonly frontier: Frontier;
  refuse(): Promise<never>;
}

/**
 * Counts how often a step has been tried, over all executions of its workflow.
 *
 * 1. A failed attempt that is followed by another attempt is recorded, with the instant of the next attempt. A step
 *    that succeeds, or fails permanently, at its first attempt writes nothing.
 * 2. In an execution that may have had predecessors, an attempt is recorded before it begins. If its end is unknown
 *    when the next attempt begins, the attempt was interrupted: its process died, perhaps because of the attempt. So it
 *    counts.
 * 3. An attempt that a shutdown interrupts is given back ({@link Attempts.giveBack}) and does not count. An attempt
 *    that ended because its workflow was cancelled or stalled does not count either: no process has died since the
 *    workflow was resumed ({@link Attempts.endedWithoutCrash}).
 *
 * The first attempt of a first execution is recorded only when it fails. If its process dies, the attempt does not
 * count, so the step may get one attempt more than allowed, once. In return, a step that succeeds at once costs no
 * extra statement.
 */
export class Attempts {
  /** The current attempts that are recorded as begun, by step number. */
  private readonly begun = new Map<number, number>();
  /** The steps of which this execution has begun an attempt. */
  private readonly seen = new Set<number>();

  constructor(private readonly execution: AttemptHost) {}

  /**
   * Records that the next attempt begins, and returns its number. Waits until the attempt may begin. A number above the
   * maximum means that no attempt is left.
   */
  async begin(stepNumber: number, waitUntil: (at: number) => Promise<void>): Promise<BegunAttempt> {
    const { owners } = this.execution.engine;
    let token = owners.next();
    for (;;) {
      const state = await this.change(stepNumber, { token, attempt: null, nextAt: null });
      if ('status' in state) return ownershipLost(this.execution, state);
      if (state.token === token && this.endedWithoutCrash(stepNumber, state)) {
        await this.change(stepNumber, { token: owners.next(), attempt: state.attempt - 2, nextAt: 0 });
        token = owners.next();
        continue;
      }
      if (state.token === token) this.begun.set(stepNumber, state.attempt);
      // The execution ended while the record was written. The attempt does not begin, and `giveBack` gives it back.
      if (!this.execution.running) return this.execution.refuse();
      if (state.token === token) return state;
      await waitUntil(state.nextAt ?? 0);
    }
  }

  /**
   * Returns whether the previous attempt has no recorded end although no process died in it. True at most once per
   * step.
   */
  private endedWithoutCrash(stepNumber: number, state: BegunAttempt): boolean {
    if (this.seen.has(stepNumber)) return false;
    this.seen.add(stepNumber);
    // A resume resets the attempt number of the workflow, and each process that dies increases it. The number 1
    // therefore means that no process has died since.
    const noProcessDied = this.execution.claim.attempt === 1;
    return noProcessDied && state.interrupted.at(-1) === state.attempt - 1;
  }

  /**
   * Records a failed attempt and the instant of the next attempt. The next attempt waits for this record: otherwise,
   * after a crash, the next attempt would be counted as this attempt.
   */
  async failed(stepNumber: number, attempt: number, nextAt: number): Promise<void> {
    this.begun.delete(stepNumber);
    const { engine, claim } = this.execution;
    const token = engine.owners.next();
    const change = this.change(stepNumber, { token, attempt, nextAt });
    const state = await change.catch((error: unknown) => {
      engine.logger.warn(
        `A failed attempt of step ${stepNumber} of workflow "${claim.workflowId}" could not be recorded: ` +
          describeError(error),
      );
      return undefined;
    });
    if (state && 'status' in state) return ownershipLost(this.execution, state);
  }

  /**
   * Gives back the attempts that a shutdown interrupts. They begin again in another process, under the same number.
   * Some of them may have succeeded without a recorded outcome. The row of a step with a recorded outcome is never read
   * again.
   */
  giveBack(): void {
    for (const [stepNumber, attempt] of this.begun) {
      const givenBack = { token: this.execution.engine.owners.next(), attempt: attempt - 1, nextAt: 0 };
      this.change(stepNumber, givenBack).catch(() => {});
    }
    this.begun.clear();
  }

  private change(stepNumber: number, change: Pick<AttemptChange, 'token' | 'attempt' | 'nextAt'>) {
    const { engine, claim, frontier } = this.execution;
    const { workflowId, owner } = claim;
    const at = engine.clock.now();
    return engine.checkpoints.changeAttempt({ workflowId, owner, stepNumber, at, ...change, ...frontier.after });
  }
}

interface BegunAttempt {
  readonly attempt: number;
  readonly interrupted: readonly number[];
}

function ownershipLost(execution: AttemptHost, by: Superseded): Promise<never> {
  const { engine, claim } = execution;
  engine.executions.supersede(claim.workflowId, claim.owner, by);
  return execution.refuse();
}

/** Returns the error of a step that has no attempt left, because processes died during its attempts. */
export function exhaustedError(
  { workflowId }: ClaimedWorkflow,
  step: string,
  maxAttempts: number,
  interrupted: readonly number[],
): HoldfastError {
  const counted = interrupted.filter((attempt) => attempt <= maxAttempts);
  const named = counted.length === 1 ? `attempt ${counted[0]}` : `attempts ${counted.join(', ')}`;
  const why =
    counted.length === 0
      ? 'the attempts failed while the code allowed more attempts. Find out why'
      : `its process ended during ${named}. Find out whether the step ends the process (memory, a native crash)`;
  return new HoldfastError(
    'STEP_ATTEMPTS_EXHAUSTED',
    `Step "${step}" of workflow "${workflowId}" has used up its ${maxAttempts} attempts, and has no result: ${why}, ` +
      `then call app.workflows.retry("${workflowId}").`,
    { details: { workflowId, step, attempts: maxAttempts, interrupted: counted } },
  );
}
