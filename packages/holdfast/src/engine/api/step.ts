import { checkMaxValueBytes } from '../../codec/codec.js';
import type { Duration } from '../../model/duration.js';
import { parseDuration } from '../../model/duration.js';
import { checkOwnName } from '../../model/ids.js';
import { checkCount, checkKnownOptions, invalidOption, misplacedOption, show } from '../../model/options.js';
import { once } from '../execution/once.js';
import { performStep, type StepPolicy } from '../execution/run-step.js';
import { currentScope } from './context.js';

/** Options of `step(name, fn, options)` and `run(name, fn, options)`. */
export interface StepOptions {
  /** How often to try again after a failure (default 0), or how exactly. */
  readonly retries?: number | RetryOptions;
  /** Longest time for one attempt. The attempt's `context().signal` aborts, and the attempt counts as failed. */
  readonly timeout?: Duration;
  /** Most bytes of the result as it is stored. Default: that of `launch`. */
  readonly maxValueBytes?: number;
}

export interface RetryOptions {
  /** How often to try again. */
  readonly max: number;
  /** Wait before the first retry (default 200ms). */
  readonly initial?: Duration;
  /** Each wait is this many times the one before (default 2). */
  readonly factor?: number;
  /** Longest wait (default 1h). */
  readonly maxDelay?: Duration;
  /** Which part of each wait is left to chance, from 0 to 1 (default 0.25). */
  readonly jitter?: number;
  /** Return false for errors that no repetition will cure. */
  readonly retryIf?: (error: unknown) => boolean;
}

/**
 * Defines a step: a function whose outcome is recorded when a workflow calls it, so that it is never run again once
 * it has returned or thrown. Inside another step it runs inline; outside any workflow it is the plain function.
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
 * The same for a method, which keeps its `this`. Two classes may have steps of one name; what a replay goes by is then
 * their order alone.
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

/** Runs a function as a step of the workflow around it, under the given name. */
export function run<Result>(name: string, fn: () => Result, options?: StepOptions): Promise<Awaited<Result>> {
  if (typeof fn !== 'function') {
    const given = isPromise(fn) ? 'a promise: give the function, and leave calling it to run()' : show(fn);
    throw misplacedOption(`run() of step "${checkStepName(name)}"`, 'fn', `must be a function, but it is ${given}`);
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

/** Calls that DBOS records as steps and Holdfast does not: whoever continues work of DBOS keeps them as steps of these names. */
const stepsOfDbos = ['DBOS.now', 'DBOS.randomUUID'];

function checkStepName(name: string): string {
  return stepsOfDbos.includes(name) ? name : checkOwnName('A step name', name);
}

const stepOptionNames = ['retries', 'timeout', 'maxValueBytes'];
const retryOptionNames = ['max', 'initial', 'factor', 'maxDelay', 'jitter', 'retryIf'];

function stepPolicy(name: string, options: StepOptions): StepPolicy {
  checkKnownOptions(`Step "${name}"`, options, stepOptionNames);
  return attemptPolicy(`Step "${name}"`, options);
}

/** When and how often an operation is tried again. */
export function attemptPolicy(what: string, options: StepOptions): StepPolicy {
  const retries = typeof options.retries === 'object' ? options.retries : { max: options.retries ?? 0 };
  checkKnownOptions(`retries of ${what}`, retries, retryOptionNames);
  // Not `??`: null is no duration, and no way to say "the default".
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
