import { nativeCodecName } from '../codec/codec.js';
import { describeError, HoldfastError, isHoldfastError } from '../model/errors.js';
import { enter, type StepScope } from './context.js';
import type { Execution } from './execution.js';
import type { Outcome, Result } from './once.js';

/** A step's options, checked and in milliseconds. */
export interface StepPolicy {
  readonly max: number;
  readonly initialMs: number;
  readonly factor: number;
  readonly maxDelayMs: number;
  readonly jitter: number;
  readonly retryIf?: (error: unknown) => boolean;
  readonly timeoutMs?: number;
}

export interface StepCall {
  readonly name: string;
  readonly stepNumber: number;
  readonly fn: () => unknown;
  readonly policy: StepPolicy;
}

/** Runs a step's function until it succeeds or its attempts are used up, and puts the outcome into words. */
export async function performStep(execution: Execution, call: StepCall): Promise<Outcome> {
  const startedAt = execution.engine.clock.now();
  execution.runningSteps++;
  try {
    const result = await attempts(execution, call);
    return { ...(await encode(execution, call, result)), childWorkflowId: null, startedAt, begun: false };
  } finally {
    execution.runningSteps--;
  }
}

type Encoded = Pick<Outcome, 'output' | 'error' | 'serialization' | 'result'>;

async function encode(execution: Execution, call: StepCall, result: Result): Promise<Encoded> {
  const codec = execution.engine.codecs.native;
  if (!result.ok) {
    const error = await codec.encodeError(result.error);
    // The code gets the error as it reads from the record: in the first run exactly what it gets in a replay, so that
    // no branch depends on, say, a class that the record does not keep.
    const recorded = await codec.decodeError(error);
    return { output: null, error, serialization: codec.name, result: { ok: false, error: recorded } };
  }
  try {
    const output = await codec.encode(result.value, `The result of step "${call.name}"`);
    // Our own codec gives back an equal value; what a custom one gives back, only it can tell.
    const value = codec.name === nativeCodecName ? result.value : await codec.decode(output);
    return { output, error: null, serialization: codec.name, result: { ok: true, value } };
  } catch (error) {
    return encode(execution, call, { ok: false, error });
  }
}

async function attempts(execution: Execution, call: StepCall): Promise<Result> {
  const { policy } = call;
  for (let attempt = 1; ; attempt++) {
    try {
      return { ok: true, value: await runAttempt(execution, call, attempt) };
    } catch (error) {
      const again =
        attempt <= policy.max &&
        execution.running &&
        !isHoldfastError(error, 'FATAL') &&
        policy.retryIf?.(error) !== false;
      if (!again) return { ok: false, error };
      await backOff(execution, call, attempt, error);
    }
  }
}

function runAttempt(execution: Execution, call: StepCall, attempt: number): unknown {
  const { stepNumber, fn, policy } = call;
  if (policy.timeoutMs !== undefined) return runTimed(execution, call, attempt, policy.timeoutMs);
  const step: StepScope = {
    stepNumber,
    attempt,
    get signal() {
      return execution.signal;
    },
  };
  return enter({ execution, step }, fn);
}

function runTimed(execution: Execution, call: StepCall, attempt: number, timeoutMs: number): Promise<unknown> {
  const { clock } = execution.engine;
  const timeout = new AbortController();
  const signal = AbortSignal.any([execution.signal, timeout.signal]);
  const step: StepScope = { stepNumber: call.stepNumber, attempt, signal };
  return new Promise((resolve, reject) => {
    const timer = clock.at(clock.now() + timeoutMs, () => {
      const error = new HoldfastError(
        'STEP_TIMEOUT',
        `Step "${call.name}" of workflow "${execution.workflowId}" took longer than ${timeoutMs} ms. ` +
          'Raise its timeout, or end it early when context().signal aborts.',
        { details: { step: call.name, workflowId: execution.workflowId, timeoutMs, attempt } },
      );
      timeout.abort(error);
      reject(error);
    });
    // The promise keeps the first settlement: what the body does after its timeout goes nowhere.
    Promise.resolve(enter({ execution, step }, async () => call.fn()))
      .then(resolve, reject)
      .finally(() => timer.cancel());
  });
}

async function backOff(execution: Execution, call: StepCall, attempt: number, error: unknown): Promise<void> {
  const { policy } = call;
  const full = Math.min(policy.maxDelayMs, policy.initialMs * policy.factor ** (attempt - 1));
  const ms = Math.round(full * (1 - policy.jitter * Math.random()));
  const { clock, logger } = execution.engine;
  logger.info(
    `Step "${call.name}" of workflow "${execution.workflowId}" failed (attempt ${attempt} of ${policy.max + 1}), ` +
      `next one in ${ms} ms: ${describeError(error)}`,
  );
  await waitUntil(execution, clock.now() + ms);
}

/** Resolves at that instant; rejects at once when the workflow is cancelled. */
export function waitUntil(execution: Execution, until: number): Promise<void> {
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
    });
  });
}
