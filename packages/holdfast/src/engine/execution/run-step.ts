import { HoldfastError, isFatal, isHoldfastError } from '../../model/errors.js';
import type { Effect } from '../../storage/contract/messaging.js';
import { runInScope, type Scope, type StepScope, stepScope } from '../api/context.js';
import { notifyEffects } from '../wait/notify-effects.js';
import { exhaustedError } from './attempts.js';
import type { Execution } from './execution.js';
import { failed, type Outcome, succeeded } from './outcome.js';
import { waitUntil } from './wait-until.js';

/** The checked options of a step. Durations are milliseconds. */
export interface StepPolicy {
  /** Maximum number of retries. */
  readonly max: number;
  readonly initialMs: number;
  readonly factor: number;
  readonly maxDelayMs: number;
  readonly jitter: number;
  readonly retryIf?: (error: unknown) => boolean;
  readonly timeoutMs?: number;
  /** Maximum size of the stored result in bytes, if it differs from the limit of the app. */
  readonly maxBytes?: number;
}

export interface StepCall {
  readonly name: string;
  readonly stepNumber: number;
  readonly fn: () => unknown;
  readonly policy: StepPolicy;
}

/** Runs the function of a step until it succeeds or has used up its attempts. Returns the outcome to record. */
export function performStep(execution: Execution, call: StepCall): Promise<Outcome> {
  return performAttempts(execution, call, async (scope, startedAt) => {
    const value = await runAttempt(scope, call);
    const effectsOfAttempt = endAttempt(scope.step);
    // Encoding is not part of the attempt: another run of the step would not make the value storable.
    const outcome = await succeeded(execution, stepResult(call.name), startedAt, value, call.policy.maxBytes);
    const effects = (await Promise.all(effectsOfAttempt)).filter((each) => each !== undefined);
    return withEffects(execution, outcome, effects, scope.step.objections);
  });
}

/**
 * {@link performStep} for a step whose attempt is more than a call of its function. An attempt fails with the error
 * that `perform` throws.
 */
export async function performAttempts(
  execution: Execution,
  call: Omit<StepCall, 'fn'>,
  perform: (scope: Scope & { step: StepScope }, startedAt: number) => Promise<Outcome>,
): Promise<Outcome> {
  const startedAt = execution.engine.clock.now();
  execution.runningSteps++;
  const maxAttempts = call.policy.max + 1;
  const isCounted = maxAttempts > 1 && execution.hadPredecessors;
  try {
    for (let attempt = 1; ; attempt++) {
      if (!execution.engine.startGate.isOpen) await untilConfirmed(execution);
      if (isCounted) {
        const begun = await execution.attempts.begin(call.stepNumber, (at) => waitUntil(execution, at));
        attempt = begun.attempt;
        if (attempt > maxAttempts) {
          const error = exhaustedError(execution.claim, call.name, maxAttempts, begun.interrupted);
          return await failed(execution, startedAt, error);
        }
        // The write of the attempt took time, and this process may have been stopped meanwhile.
        if (!execution.engine.startGate.isOpen) await untilConfirmed(execution);
      }
      const scope = stepScope(execution, call.stepNumber, attempt);
      try {
        return await reportToProbe(scope, call, () => perform(scope, startedAt));
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

/** Names the result of a step in error messages. */
export function stepResult(stepName: string): string {
  return `The result of step "${stepName}"`;
}

/** Runs an attempt and reports it to the test kit, if there is one. */
function reportToProbe(
  scope: Scope & { step: StepScope },
  call: Omit<StepCall, 'fn'>,
  perform: () => Promise<Outcome>,
) {
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

/** Ends an attempt and returns its effects. Effects that the code adds later do not count. */
function endAttempt(step: StepScope): NonNullable<StepScope['effects']> {
  const effects = step.effects ?? [];
  step.effects = null;
  return effects;
}

/** Adds the effects of an attempt to its outcome. A failed step leaves only its error. */
function withEffects(
  execution: Execution,
  outcome: Outcome,
  effects: readonly Effect[],
  objections: StepScope['objections'] = [],
): Outcome {
  if (effects.length === 0 || !outcome.result.ok) return outcome;
  const finalCheck = (): unknown => objections.map((object) => object()).find((error) => error !== undefined);
  return { ...outcome, effects, finalCheck, onCommit: () => notifyEffects(execution, effects) };
}

function mayRetry(execution: Execution, call: Omit<StepCall, 'fn'>, attempt: number, error: unknown): boolean {
  const { max, retryIf } = call.policy;
  if (attempt > max || !execution.running || isFatal(error)) return false;
  // The stream stays closed. The function may have succeeded, and a retry would only repeat its work.
  if (isHoldfastError(error, 'STREAM_CLOSED')) return false;
  // The step fails with its own error. An error of `retryIf` must not replace that error.
  const refuseRetry = (how: string): false => {
    execution.engine.logger.warn(`retryIf of step "${call.name}" ${how}`);
    return false;
  };
  try {
    const answer: unknown = runInScope(stepScope(execution, call.stepNumber, attempt), () => retryIf?.(error));
    if (!isPromise(answer)) return answer !== false;
    // The promise is not awaited, and its rejection must not end the process.
    Promise.resolve(answer).catch(() => {});
    return refuseRetry('returned a promise, so there is no retry. Return true or false synchronously.');
  } catch (failure) {
    return refuseRetry(`threw, so there is no retry: ${execution.engine.codecs.errors.describe(failure)}`);
  }
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}

function runAttempt(scope: Scope & { step: StepScope }, call: StepCall): unknown {
  const { fn, policy } = call;
  return policy.timeoutMs === undefined ? runInScope(scope, fn) : runTimed(scope, call, policy.timeoutMs);
}

function runTimed({ execution, step }: Scope & { step: StepScope }, call: StepCall, timeoutMs: number) {
  const { clock } = execution.engine;
  const timeout = new AbortController();
  const signal = AbortSignal.any([execution.signal, timeout.signal]);
  Object.defineProperty(step, 'signal', { value: signal });
  // The listener makes Node 24 compute the reason of the signal at the abort. Without a listener, Node computes the
  // reason when it is read: if the workflow has ended by then, the end would be the reason instead of the timeout.
  const ignoreAbort = (): void => {};
  signal.addEventListener('abort', ignoreAbort, { once: true });
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
    // The promise keeps its first settlement: the result of a function after its timeout is discarded.
    Promise.resolve(runInScope({ execution, step }, async () => call.fn()))
      .then(resolve, reject)
      .finally(() => {
        timer.cancel();
        signal.removeEventListener('abort', ignoreAbort);
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
  const maxMs = Math.min(policy.maxDelayMs, policy.initialMs * policy.factor ** (attempt - 1));
  const ms = Math.round(maxMs * (1 - policy.jitter * Math.random()));
  const { clock, codecs, logger } = execution.engine;
  logger.warn(
    `Step "${call.name}" of workflow "${execution.workflowId}" failed (attempt ${attempt} of ${policy.max + 1}), ` +
      `next attempt in ${ms} ms: ${codecs.errors.describe(error)}`,
  );
  const nextAt = clock.now() + ms;
  await Promise.all([execution.attempts.failed(call.stepNumber, attempt, nextAt), waitUntil(execution, nextAt)]);
}

/**
 * Waits until the start gate is open: other executors do not consider this process dead, and the database accepts
 * outcomes. If the workflow ends first, rejects with its cancellation or never settles.
 */
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
        abandoned: stop,
      });
    });
  }
  // The workflow may have ended between the opening of the gate and this line.
  if (!execution.running) await execution.refuse();
}
