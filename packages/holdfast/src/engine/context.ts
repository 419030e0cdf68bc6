import { AsyncLocalStorage } from 'node:async_hooks';
import { HoldfastError } from '../model/errors.js';
import type { Execution } from './execution.js';

/** Where the calling code runs: directly in a workflow, or inside one of its steps. */
export interface Scope {
  readonly execution: Execution;
  readonly step: StepScope | undefined;
}

export interface StepScope {
  readonly stepNumber: number;
  readonly attempt: number;
  readonly signal: AbortSignal;
}

// A carrier, not state: it holds nothing of any engine. It is shared between copies of the package in one process, so
// that a workflow defined with one copy finds itself when it calls a step of another.
const key = Symbol.for('holdfast.scope.v1');
const shared = globalThis as { [key]?: AsyncLocalStorage<Scope> };
shared[key] ??= new AsyncLocalStorage<Scope>();
const scopes = shared[key];

export function enter<R>(scope: Scope, fn: () => R): R {
  return scopes.run(scope, fn);
}

export function currentScope(): Scope | undefined {
  return scopes.getStore();
}

/** The execution whose workflow function is calling directly, not from inside a step. */
export function currentExecution(): Execution | undefined {
  const scope = scopes.getStore();
  return scope?.step ? undefined : scope?.execution;
}

/** The execution around a call that makes sense only in a workflow function, or a typed error. */
export function requireExecution(call: string): Execution {
  const scope = scopes.getStore();
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

/** What `context()` shows to a workflow or step. */
export interface WorkflowContext {
  readonly workflowId: string;
  readonly workflowName: string;
  /** Number of the running step; undefined in the workflow function itself. */
  readonly stepNumber: number | undefined;
  /** In a step: which attempt of the step this is, from 1. In a workflow: which attempt of the workflow. */
  readonly attempt: number;
  /** Aborts when the workflow is cancelled or lost to another process, and at a step's timeout. */
  readonly signal: AbortSignal;
  readonly executorId: string;
  readonly version: string;
  readonly deadlineAt: number | undefined;
  readonly user: string | undefined;
  readonly roles: readonly string[];
}

/** Facts about the workflow or step that is calling. */
export function context(): WorkflowContext {
  const scope = scopes.getStore();
  if (!scope) throw new HoldfastError('NOT_IN_WORKFLOW', 'context() works only inside a workflow or a step.');
  const { execution, step } = scope;
  const { facts, engine } = execution;
  return {
    workflowId: facts.workflowId,
    workflowName: facts.name,
    stepNumber: step?.stepNumber,
    attempt: step?.attempt ?? facts.attempt,
    get signal() {
      return step?.signal ?? execution.signal;
    },
    executorId: engine.writer.executorId,
    version: engine.version,
    deadlineAt: facts.deadlineAt ?? undefined,
    user: facts.user ?? undefined,
    roles: facts.roles === null ? [] : (JSON.parse(facts.roles) as string[]),
  };
}
