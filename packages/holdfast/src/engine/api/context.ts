import { HoldfastError } from '../../model/errors.js';
import { release } from '../../model/release.js';
import type { Effect } from '../../storage/contract/messaging.js';
import type { Execution } from '../execution/execution.js';
import { otherReleaseCalling, scopeStorage } from '../execution/scope-storage.js';
import type { ProbedAttempt } from '../execution/step-probe.js';
import { parseRoles } from '../start/authorization.js';

/** The place of the calling code: a workflow function itself, or one of its steps. */
export interface Scope {
  readonly execution: Execution;
  readonly step: StepScope | undefined;
}

/** One attempt of a running step. */
export interface StepScope {
  readonly stepNumber: number;
  readonly attempt: number;
  readonly signal: AbortSignal;
  /**
   * The effects of this attempt, in call order; null once the attempt has ended. A promise that resolves with undefined
   * adds no effect. The end of the attempt awaits the promises: if one rejects, the attempt fails with that error.
   */
  effects: (Effect | PromiseLike<Effect | undefined>)[] | null;
  /**
   * Checks that run just before the step is recorded with its effects. A check returns the error with which the step
   * fails instead, or undefined.
   */
  objections: (() => unknown)[] | undefined;
  /** This attempt as the test kit sees it. */
  probed: ProbedAttempt | undefined;
}

/** Runs `fn` as code of this scope. */
export function runInScope<R>(scope: Scope, fn: () => R): R {
  return scopeStorage.run(scope, fn);
}

/**
 * Returns the scope of the calling code, or undefined outside workflows. Throws a typed error in a workflow that
 * another release of the package runs: the calls of that workflow could not be recorded.
 */
export function currentScope(): Scope | undefined {
  const scope = scopeStorage.getStore() as Scope | undefined;
  if (scope) return scope;
  const other = otherReleaseCalling();
  if (other === undefined) return undefined;
  throw new HoldfastError(
    'UNSUPPORTED_CALL',
    `A workflow that runs in Holdfast ${other} called a function of Holdfast ${release}, which cannot record it. ` +
      'Use one version of the package in this process. "npm ls holdfast" shows which package depends on which version.',
    { details: { releases: [release, other] } },
  );
}

/**
 * Returns the scope of an attempt of a step. User code that a replay must not repeat runs in this scope, not in the
 * scope of the workflow function.
 */
export function stepScope(execution: Execution, stepNumber: number, attempt: number): Scope & { step: StepScope } {
  return { execution, step: new RunningStep(execution, stepNumber, attempt) };
}

/**
 * A class instead of an object literal: V8 gives each literal with a getter a hidden class of its own, which costs ten
 * times the time and memory.
 */
class RunningStep implements StepScope {
  effects: StepScope['effects'] = [];
  objections: StepScope['objections'];
  probed: StepScope['probed'];

  constructor(
    private readonly execution: Execution,
    readonly stepNumber: number,
    readonly attempt: number,
  ) {}

  /** Created on first access, because few steps use the signal. */
  get signal(): AbortSignal {
    return this.execution.signal;
  }
}

/**
 * Reports to the test kit that the calling step only waits for `promise`. The test kit may move its clock meanwhile,
 * because a step that only waits does no work.
 */
export function whileWaiting<T>(promise: Promise<T>, step = currentScope()?.step): Promise<T> {
  const endWait = step?.probed?.wait();
  if (endWait) promise.then(endWait, endWait);
  return promise;
}

/**
 * Returns the execution if its workflow function itself makes the call. Undefined inside a step and outside workflows.
 */
export function currentExecution(): Execution | undefined {
  const scope = currentScope();
  return scope?.step ? undefined : scope?.execution;
}

/** Returns the execution around a call that is valid only in a workflow function. Throws a typed error elsewhere. */
export function requireExecution(call: string): Execution {
  const scope = currentScope();
  if (!scope) {
    throw new HoldfastError(
      'NOT_IN_WORKFLOW',
      `${call} works only inside a workflow. Move it into a workflow function.`,
    );
  }
  if (scope.step) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `${call} cannot be called inside a step: only a step's result is recorded. Call it in the workflow instead.`,
    );
  }
  return scope.execution;
}

/**
 * Throws if a workflow function makes the call, because a replay would repeat the call. The call belongs in a step: a
 * replay reads the record of the step instead of running it.
 */
export function refuseInWorkflow(call: string, advice: string): void {
  if (!currentExecution()) return;
  throw new HoldfastError(
    'UNSUPPORTED_CALL',
    `${call} cannot be called in a workflow function, because a replay would repeat it. ${advice}`,
  );
}

/** Facts about the workflow or step that calls `context()`. */
export interface WorkflowContext {
  /** ID of the workflow. */
  readonly workflowId: string;
  /** Name of the workflow, as given to `workflow()`. */
  readonly workflowName: string;
  /** Class of a workflow that is a method. Undefined for a plain function. */
  readonly className: string | undefined;
  /**
   * Name of the instance that the workflow method belongs to. Undefined for a plain function and for a static method.
   */
  readonly configName: string | undefined;
  /** Number of the running step. Undefined in the workflow function itself. */
  readonly stepNumber: number | undefined;
  /**
   * In a step: number of the current attempt of the step, from 1. In a workflow function: number of the current attempt
   * of the workflow, from 1.
   */
  readonly attempt: number;
  /**
   * Aborts when the workflow ends, is cancelled or moves to another process, and at the timeout of the step. Pass the
   * signal to calls that support it: `fetch(url, { signal })`.
   */
  readonly signal: AbortSignal;
  /** ID of the executor that runs the workflow. */
  readonly executorId: string;
  /** Version of the app that runs the workflow. */
  readonly version: string;
  /** Deadline of the workflow in epoch milliseconds. Undefined if the workflow has no timeout. */
  readonly deadlineAt: number | undefined;
  /** User on whose behalf the workflow runs, as given by `with({ user })`. */
  readonly user: string | undefined;
  /** Roles of that user, as given by `with({ roles })`. */
  readonly roles: readonly string[];
  /** Role that allowed the start of the workflow, or of its parent. Undefined if no role was required. */
  readonly assumedRole: string | undefined;
}

/**
 * Returns facts about the workflow or step that makes the call: IDs, the attempt, the user and an abort signal. Throws
 * `NOT_IN_WORKFLOW` in any other code.
 *
 * @example
 * ```ts
 * const charge = step('charge', async (cents: number) => {
 *   const { workflowId, stepNumber, signal } = context();
 *   // The same key in each attempt of this step, so that the payment service charges only once.
 *   const headers = { 'Idempotency-Key': `${workflowId}-${stepNumber}` };
 *   await fetch('https://payments.example/charges', { method: 'POST', headers, body: String(cents), signal });
 * });
 * ```
 */
export function context(): WorkflowContext {
  const scope = currentScope();
  if (!scope) throw new HoldfastError('NOT_IN_WORKFLOW', 'context() works only inside a workflow or a step.');
  const { execution, step } = scope;
  const { claim, engine } = execution;
  return {
    workflowId: claim.workflowId,
    workflowName: claim.name,
    className: claim.definition.className ?? undefined,
    configName: claim.definition.configName ?? undefined,
    stepNumber: step?.stepNumber,
    attempt: step?.attempt ?? claim.attempt,
    get signal() {
      return step?.signal ?? execution.signal;
    },
    executorId: engine.writer.executorId,
    version: engine.version,
    deadlineAt: claim.deadlineAt ?? undefined,
    user: claim.user ?? undefined,
    roles: parseRoles(claim.roles),
    assumedRole: claim.assumedRole ?? undefined,
  };
}
