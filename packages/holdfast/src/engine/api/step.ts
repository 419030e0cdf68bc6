import { checkMaxValueBytes } from '../../codec/codecs.js';
import type { Duration } from '../../model/duration.js';
import { parseDuration } from '../../model/duration.js';
import { checkUserName } from '../../model/ids.js';
import { checkCount, checkKnownOptions, invalidOption, show, wrongOption } from '../../model/options.js';
import { once } from '../execution/once.js';
import { rejecting } from '../execution/rejecting.js';
import { performStep, type StepPolicy } from '../execution/run-step.js';
import { currentScope } from './context.js';

/** Options of `step(name, fn, options)` and `run(name, fn, options)`. */
export interface StepOptions {
  /** Number of retries after a failure (default 0), or a detailed policy. */
  readonly retries?: number | RetryOptions;
  /**
   * Time limit for one attempt (default: none). At the limit, `context().signal` aborts and the attempt fails with
   * `STEP_TIMEOUT`.
   */
  readonly timeout?: Duration;
  /** Maximum size of the stored result in bytes. Default: the `maxValueBytes` of `launch`. */
  readonly maxValueBytes?: number;
}

/** Retry policy of a step. */
export interface RetryOptions {
  /** Maximum number of retries. */
  readonly max: number;
  /** Delay before the first retry (default 200ms). */
  readonly initial?: Duration;
  /** Each delay is the previous delay times this factor (default 2). */
  readonly factor?: number;
  /** Maximum delay before a retry (default 1h). */
  readonly maxDelay?: Duration;
  /** Random part of each delay, from 0 to 1 (default 0.25). With 0.25, a delay is up to 25% shorter. */
  readonly jitter?: number;
  /**
   * Called with the error of each failed attempt. Return false, synchronously, for an error that a retry cannot fix:
   * the step then fails without a retry.
   */
  readonly retryIf?: (error: unknown) => boolean;
}

/**
 * Defines a step: a function whose outcome is recorded when a workflow calls it. Once a value or an error is recorded,
 * the call never runs again: a replay returns the recorded outcome. If the process dies before that, the function runs
 * again. Inside another step, the function runs inline. Outside workflows, it is a plain function.
 *
 * @example
 * ```ts
 * const charge = step('charge', (orderId: string, cents: number) => payments.charge(orderId, cents), {
 *   retries: { max: 5, initial: '1s' },
 *   timeout: '30s',
 * });
 * const checkout = workflow('checkout', async (orderId: string) => charge(orderId, 4200));
 * ```
 */
export function step<Args extends unknown[], Result>(
  name: string,
  fn: (...args: Args) => Result,
  options: StepOptions = {},
): (...args: Args) => Promise<Awaited<Result>> {
  if (typeof fn !== 'function') throw invalidOption(`Step "${checkStepName(name)}"`, 'fn', fn, 'a function');
  const policy = stepPolicy(checkStepName(name), options);
  const defined = (...args: Args): Promise<Awaited<Result>> => {
    const scope = currentScope();
    if (scope && !scope.step) scope.execution.engine.registry.checkStep(name, defined);
    return call(name, () => fn(...args), policy, args);
  };
  Object.defineProperty(defined, 'name', { value: name });
  return defined;
}

/**
 * Defines a step that is a method; the method keeps its `this`. Steps of two classes may have the same name. A replay
 * distinguishes such steps only by their order.
 */
export function methodStep<This, Args extends unknown[], Result>(
  name: string,
  fn: (this: This, ...args: Args) => Result,
  options: StepOptions,
): (this: This, ...args: Args) => Promise<Awaited<Result>> {
  const policy = stepPolicy(checkStepName(name), options);
  return function method(this: This, ...args: Args): Promise<Awaited<Result>> {
    const scope = currentScope();
    if (scope && !scope.step) scope.execution.engine.registry.checkStep(`${classNameOf(this)}.${name}`, method);
    return call(name, () => fn.apply(this, args), policy, args);
  };
}

function classNameOf(receiver: unknown): string {
  const owner = typeof receiver === 'function' ? receiver : (receiver as object | undefined)?.constructor;
  return owner?.name ?? '';
}

/**
 * Runs a function as a step of the calling workflow, and records its outcome under the given name. A replay returns the
 * recorded outcome and does not run the function. Inside another step, the function runs inline. Outside workflows, it
 * runs as a plain function.
 *
 * @example
 * ```ts
 * const report = workflow('report', async (month: string) => {
 *   const rows = await run('load rows', () => loadRows(month));
 *   return run('upload', () => upload(rows), { retries: 3, timeout: '1m' });
 * });
 * ```
 */
export function run<Result>(name: string, fn: () => Result, options?: StepOptions): Promise<Awaited<Result>> {
  return rejecting('run()', () => runInline(name, fn, options));
}

function runInline<Result>(name: string, fn: () => Result, options?: StepOptions): Promise<Awaited<Result>> {
  if (typeof fn !== 'function') {
    const given = isPromise(fn)
      ? 'a promise: pass the function itself, and run() calls it'
      : `${show(fn)}: pass a function that does the work, as in () => doWork()`;
    throw wrongOption(`run() of step "${checkStepName(name)}"`, 'fn', `must be a function, but it is ${given}`);
  }
  return call(name, fn, options ? stepPolicy(name, options) : noRetries, noArgs, true);
}

function isPromise(value: unknown): boolean {
  return value instanceof Promise;
}

const noArgs: readonly unknown[] = [];
const noRetries: StepPolicy = { max: 0, initialMs: 0, factor: 1, maxDelayMs: 0, jitter: 0 };

async function plainCall<Result>(fn: () => Result): Promise<Awaited<Result>> {
  return await fn();
}

function call<Result>(
  name: string,
  fn: () => Result,
  policy: StepPolicy,
  args: readonly unknown[],
  unchecked = false,
): Promise<Awaited<Result>> {
  const scope = currentScope();
  if (!scope) return plainCall(fn);
  const { execution } = scope;
  const stub = execution.engine.registry.stepProbe?.stubOf(name);
  const body = stub ? () => stub(...args) : fn;
  if (scope.step) return plainCall(body as () => Result);
  if (unchecked) checkStepName(name);
  return once(execution, name, (stepNumber) => performStep(execution, { name, stepNumber, fn: body, policy }));
}

/**
 * Calls that DBOS records as steps and Holdfast does not. Code that continues workflows of DBOS keeps these calls as
 * steps of the same names.
 */
const stepsOfDbos = ['DBOS.now', 'DBOS.randomUUID'];

function checkStepName(name: string): string {
  return stepsOfDbos.includes(name) ? name : checkUserName('A step name', name);
}

const stepOptionNames = ['retries', 'timeout', 'maxValueBytes'];
const retryOptionNames = ['max', 'initial', 'factor', 'maxDelay', 'jitter', 'retryIf'];

function stepPolicy(name: string, options: StepOptions): StepPolicy {
  checkKnownOptions(`Step "${name}"`, options, stepOptionNames);
  return attemptPolicy(`Step "${name}"`, options);
}

/** Checks the options of a step and returns its retry policy, in milliseconds. */
export function attemptPolicy(what: string, options: StepOptions): StepPolicy {
  const retries = typeof options.retries === 'object' ? options.retries : { max: options.retries ?? 0 };
  checkKnownOptions(`retries of ${what}`, retries, retryOptionNames);
  // The code uses destructuring defaults instead of `??`: null does not mean "the default", and the checks below must
  // refuse it.
  const { initial = 200, factor = 2, maxDelay = 3_600_000, jitter = 0.25, retryIf } = retries;
  if (!(factor >= 1 && Number.isFinite(factor))) throw invalidOption(what, 'factor', factor, 'a number of at least 1');
  if (retryIf !== undefined && typeof retryIf !== 'function') {
    throw invalidOption(what, 'retryIf', retryIf, 'a function from an error to true or false');
  }
  if (!(jitter >= 0 && jitter <= 1)) throw invalidOption(what, 'jitter', jitter, 'a number from 0 to 1');
  const maxBytes = checkMaxValueBytes(what, options.maxValueBytes);
  return {
    max: checkCount(what, typeof options.retries === 'object' ? 'retries.max' : 'retries', retries.max),
    initialMs: parseDuration(initial, `The first retry delay of ${what}`),
    factor,
    maxDelayMs: parseDuration(maxDelay, `The longest retry delay of ${what}`),
    jitter,
    ...(retryIf && { retryIf }),
    ...(maxBytes !== undefined && { maxBytes }),
    ...(options.timeout !== undefined && { timeoutMs: parseDuration(options.timeout, `The timeout of ${what}`) }),
  };
}
