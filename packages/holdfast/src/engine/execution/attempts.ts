import { describeError, HoldfastError } from '../../model/errors.js';
import type { AttemptChange } from '../../storage/contract/storage.js';
import type { ClaimedWorkflow, Engine } from '../engine.js';
import type { Superseded } from '../write/checkpoints.js';
import type { Frontier } from './frontier.js';

/** An execution, as far as its attempts go. */
interface Attempting {
  readonly engine: Engine;
  readonly claim: ClaimedWorkflow;
  readonly running: boolean;
  readonly frontier: Frontier;
  refuse(): Promise<never>;
}

/**
 * How often a step has been tried, counted over all executions of its workflow.
 *
 * 1. An attempt that fails and is to be followed by another goes on record, with the instant of the next. Nothing is written for a step
 *    that succeeds, or fails for good, at once.
 * 2. In an execution that may have had predecessors, an attempt goes on record before it begins. One of which nothing more is known when
 *    the next begins was interrupted: its process died, and perhaps by it. So it counts.
 * 3. An attempt that a shutdown interrupts is given back ({@link Attempts.giveBack}), and does not count. Neither does one that ended
 *    because its workflow was cancelled or set aside: no process has died since it was resumed ({@link Attempts.wasSetAside}).
 *
 * The first attempt of a first execution is not on record before it fails: if its process dies, it does not count. That is one attempt
 * more than the step was allowed, once, for the price of no statement where nothing goes wrong.
 */
export class Attempts {
  /** Those on record as begun, by step. */
  private readonly begun = new Map<number, number>();
  /** Those of which this execution has begun an attempt. */
  private readonly seen = new Set<number>();

  constructor(private readonly execution: Attempting) {}

  /** The number of the attempt that begins now: it is on record. Waits until it may begin. More than `most`: there is none left. */
  async begin(stepNumber: number, waitUntil: (at: number) => Promise<void>): Promise<Begun> {
    const { owners } = this.execution.engine;
    let token = owners.next();
    for (;;) {
      const now = await this.change(stepNumber, { token, attempt: null, nextAt: null });
      if ('status' in now) return lost(this.execution, now);
      if (now.token === token && this.wasSetAside(stepNumber, now)) {
        await this.change(stepNumber, { token: owners.next(), attempt: now.attempt - 2, nextAt: 0 });
        token = owners.next();
        continue;
      }
      if (now.token === token) this.begun.set(stepNumber, now.attempt);
      // Ended while that was written: it does not begin, and is given back.
      if (!this.execution.running) return this.execution.refuse();
      if (now.token === token) return now;
      await waitUntil(now.nextAt ?? 0);
    }
  }

  /** Whether the attempt before this one has no end on record although no process died in it. Told once. */
  private wasSetAside(stepNumber: number, now: Begun): boolean {
    if (this.seen.has(stepNumber)) return false;
    this.seen.add(stepNumber);
    // The number of the workflow's attempt begins anew with a resume, and grows with each process that dies.
    const isUnbroken = this.execution.claim.attempt === 1;
    return isUnbroken && now.interrupted.at(-1) === now.attempt - 1;
  }

  /** Another one follows at that instant. Not before this is on record: the next one would count for this one after a crash. */
  async failed(stepNumber: number, attempt: number, nextAt: number): Promise<void> {
    this.begun.delete(stepNumber);
    const { engine, claim } = this.execution;
    const token = engine.owners.next();
    const change = this.change(stepNumber, { token, attempt, nextAt });
    const now = await change.catch((error: unknown) => {
      engine.logger.warn(
        `An attempt of step ${stepNumber} of workflow "${claim.workflowId}" could not be put on record: ${describeError(error)}`,
      );
      return undefined;
    });
    if (now && 'status' in now) return lost(this.execution, now);
  }

  /**
   * What is under way is interrupted by a shutdown, and begins again elsewhere under its number. What has succeeded may be among it, if its
   * outcome did not get on record any more; of the others nobody reads the row again.
   */
  giveBack(): void {
    for (const [stepNumber, attempt] of this.begun) {
      const given = { token: this.execution.engine.owners.next(), attempt: attempt - 1, nextAt: 0 };
      this.change(stepNumber, given).catch(() => {});
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

interface Begun {
  readonly attempt: number;
  readonly interrupted: readonly number[];
}

function lost(execution: Attempting, by: Superseded): Promise<never> {
  const { engine, claim } = execution;
  engine.superseded(claim.workflowId, claim.owner, by);
  return execution.refuse();
}

/** Nothing is left of its attempts, because processes died in them. */
export function exhaustedError(
  { workflowId }: ClaimedWorkflow,
  step: string,
  most: number,
  interrupted: readonly number[],
): HoldfastError {
  const among = interrupted.filter((attempt) => attempt <= most);
  const named = among.length === 1 ? `attempt ${among[0]}` : `attempts ${among.join(', ')}`;
  const why =
    among.length === 0
      ? 'they failed when more were allowed. Find out why'
      : `its process ended during ${named}. Find out whether the step ends it (memory, a native crash)`;
  return new HoldfastError(
    'STEP_ATTEMPTS_EXHAUSTED',
    `Step "${step}" of workflow "${workflowId}" has used up its ${most} attempts, and has no result: ${why}, then ` +
      `app.workflows.retry("${workflowId}").`,
    { details: { workflowId, step, attempts: most, interrupted: among } },
  );
}
