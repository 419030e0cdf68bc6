import { HoldfastError, isFatal, isHoldfastError } from '../../model/errors.js';
import type { Effect } from '../../storage/contract/messaging.js';
import { enter, type Scope, type StepScope, stepScope } from '../api/context.js';
import { notifyEffects } from '../wait/notify-effects.js';
import { exhaustedError } from './attempts.js';
import type { Execution, Wait } from './execution.js';
import { failed, type Outcome, succeeded } from './outcome.js';

/** A step's options, checked and in milliseconds. */
export interface StepPolicy {
  readonly max: number;
  readonly initialMs: number;
  readonly factor: number;
  readonly maxDelayMs: number;
  readonly jitter: number;
  readonly retryIf?: (error: unknown) => boolean;
  readonly timeoutMs?: number;
  /** Most bytes of the result, if that is not the limit of the app. */
  readonly maxBytes?: number;
}

export interface StepCall {
  readonly name: string;
  readonly stepNumber: number;
  readonly fn: () => unknown;
  readonly policy: StepPolicy;
}

/** Runs a step's function until it succeeds or its attempts are used up, and puts the outcome into words. */
export function performStep(execution: Execution, call: StepCall): Promise<Outcome> {
  return performAttempts(execution, call, async (scope, startedAt) => {
    const value = await runAttempt(scope, call);
    const said = endAttempt(scope.step);
    // Not part of the attempt: a value that cannot be stored would not become storable by running the step again.
    const outcome = await succeeded(execution, stepResult(call.name), startedAt, value, call.policy.maxBytes);
    const effects = (await Promise.all(said)).filter((each) => each !== undefined);
    return withEffects(execution, outcome, effects, scope.step.objections);
  });
}

/** The same for a step of which an attempt is more than a call of its function. What an attempt throws, it failed with. */
export async function performAttempts(
  execution: Execution,
  call: Omit<StepCall, 'fn'>,
  perform: (scope: Scope & { step: StepScope }, startedAt: number) => Promise<Outcome>,
): Promise<Outcome> {
  const startedAt = execution.engine.clock.now();
  execution.runningSteps++;
  const most = call.policy.max + 1;
  const isCounted = most > 1 && execution.hadPredecessors;
  try {
    for (let attempt = 1; ; attempt++) {
      if (!execution.engine.startGate.isOpen) await untilConfirmed(execution);
      if (isCounted) {
        const begun = await execution.attempts.begin(call.stepNumber, (at) => waitUntil(execution, at));
        attempt = begun.attempt;
        if (attempt > most) {
          const error = exhaustedError(execution.claim, call.name, most, begun.interrupted);
          return await failed(execution, startedAt, error);
        }
        // The database was waited for, and this process may have been stopped meanwhile.
        if (!execution.engine.startGate.isOpen) await untilConfirmed(execution);
      }
      const scope = stepScope(execution, call.stepNumber, attempt);
      try {
        return await probed(scope, call, () => perform(scope, startedAt));
      } catch (error) {
        endAttempt(scope.step);
        if (!mayRetry(execution, call, attempt, error)) return await failed(execution, startedAt, error);
        await backOff(execution, call, attempt, error);
      }
    }
  } finally {
    execution.runningSteps--;
  }
}

export function stepResult(stepName: string): string {
  return `The result of step "${stepName}"`;
}

function probed(scope: Scope & { step: StepScope }, call: Omit<StepCall, 'fn'>, perform: () => Promise<Outcome>) {
  const { execution, step } = scope;
  const { engine, claim, workflowId } = execution;
  const { stepProbe } = engine.registry;
  if (!stepProbe) return perform();
  const { name, stepNumber } = call;
  const isWanted = (): boolean => execution.running;
  const { attempt } = step;
  step.probed = stepProbe.begin({ workflowId, workflow: claim.name, step: name, stepNumber, attempt, isWanted });
  return perform().finally(step.probed.end);
}

/** What comes after the end of an attempt is no part of it. */
function endAttempt(step: StepScope): NonNullable<StepScope['effects']> {
  const effects = step.effects ?? [];
  step.effects = null;
  return effects;
}

/** A step that failed leaves nothing behind but its error. */
function withEffects(
  execution: Execution,
  outcome: Outcome,
  effects: readonly Effect[],
  objections: StepScope['objections'] = [],
): Outcome {
  if (effects.length === 0 || !outcome.result.ok) return outcome;
  const objection = (): unknown => objections.map((object) => object()).find((error) => error !== undefined);
  return { ...outcome, effects, objection, onCommit: () => notifyEffects(execution, effects) };
}

function mayRetry(execution: Execution, call: Omit<StepCall, 'fn'>, attempt: number, error: unknown): boolean {
  const { max, retryIf } = call.policy;
  if (attempt > max || !execution.running || isFatal(error)) return false;
  // What it writes to stays closed: the function may have succeeded, and would only do its work once more for nothing.
  if (isHoldfastError(error, 'STREAM_CLOSED')) return false;
  // The step's own error is what counts; a broken filter must not replace it.
  const broken = (how: string): false => {
    execution.engine.logger.warn(`retryIf of step "${call.name}" ${how}`);
    return false;
  };
  try {
    const answer: unknown = enter(stepScope(execution, call.stepNumber, attempt), () => retryIf?.(error));
    if (!isPromise(answer)) return answer !== false;
    // What it resolves with is not waited for; that it rejects must not end the process.
    Promise.resolve(answer).catch(() => {});
    return broken('returned a promise, so there is no retry: let it return true or false itself.');
  } catch (failure) {
    return broken(`threw, so there is no retry: ${execution.engine.codecs.errors.describe(failure)}`);
  }
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}

function runAttempt(scope: Scope & { step: StepScope }, call: StepCall): unknown {
  const { fn, policy } = call;
  return policy.timeoutMs === undefined ? enter(scope, fn) : runTimed(scope, call, policy.timeoutMs);
}

function runTimed({ execution, step }: Scope & { step: StepScope }, call: StepCall, timeoutMs: number) {
  const { clock } = execution.engine;
  const timeout = new AbortController();
  const signal = AbortSignal.any([execution.signal, timeout.signal]);
  Object.defineProperty(step, 'signal', { value: signal });
  // Node 24 works out the reason of a signal that nobody listens to when it is asked for: if the workflow has ended by then,
  // that would be the reason, and not the timeout.
  const listen = (): void => {};
  signal.addEventListener('abort', listen, { once: true });
  return new Promise<unknown>((resolve, reject) => {
    const timer = clock.at(clock.now() + timeoutMs, () => {
      const error = new HoldfastError(
        'STEP_TIMEOUT',
        `Step "${call.name}" of workflow "${execution.workflowId}" took longer than ${timeoutMs} ms. ` +
          'Raise its timeout, or end it early when context().signal aborts.',
        { details: { step: call.name, workflowId: execution.workflowId, timeoutMs, attempt: step.attempt } },
      );
      timeout.abort(error);
      reject(error);
    });
    // The promise keeps the first settlement: what the body does after its timeout goes nowhere.
    Promise.resolve(enter({ execution, step }, async () => call.fn()))
      .then(resolve, reject)
      .finally(() => {
        timer.cancel();
        signal.removeEventListener('abort', listen);
      });
  });
}

async function backOff(
  execution: Execution,
  call: Omit<StepCall, 'fn'>,
  attempt: number,
  error: unknown,
): Promise<void> {
  const { policy } = call;
  const full = Math.min(policy.maxDelayMs, policy.initialMs * policy.factor ** (attempt - 1));
  const ms = Math.round(full * (1 - policy.jitter * Math.random()));
  const { clock, codecs, logger } = execution.engine;
  logger.warn(
    `Step "${call.name}" of workflow "${execution.workflowId}" failed (attempt ${attempt} of ${policy.max + 1}), ` +
      `next one in ${ms} ms: ${codecs.errors.describe(error)}`,
  );
  const nextAt = clock.now() + ms;
  await Promise.all([execution.attempts.failed(call.stepNumber, attempt, nextAt), waitUntil(execution, nextAt)]);
}

/** Holds up an attempt until this process knows again that it is not taken for dead, unless the workflow ends before. */
export async function untilConfirmed(execution: Execution): Promise<void> {
  const { startGate } = execution.engine;
  while (!startGate.isOpen) {
    await new Promise<void>((resolve, reject) => {
      if (!execution.running) return void execution.refuse().catch(reject);
      const stop = startGate.onceOpen(() => {
        forget();
        resolve();
      });
      const forget = execution.onCancel({
        cancelled: (error) => {
          stop();
          reject(error);
        },
        dropped: stop,
      });
    });
  }
  // What ended it may have come between the confirmation and here.
  if (!execution.running) await execution.refuse();
}

/** Resolves at that instant; rejects at once when the workflow is cancelled. */
export function waitUntil(
  execution: Execution,
  until: number,
  watchWhileSuspended?: Wait['watchWhileSuspended'],
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (!execution.running) return void execution.refuse().catch(reject);
    const timer = execution.engine.clock.at(until, () => {
      forget();
      resolve();
    });
    const forget = execution.onCancel({
      until,
      cancelled: (error) => {
        timer.cancel();
        reject(error);
      },
      dropped: () => timer.cancel(),
      watchWhileSuspended,
    });
  });
}
