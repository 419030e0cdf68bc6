import { HoldfastError } from '../../model/errors.js';
import { release } from '../../model/release.js';
import type { Effect } from '../../storage/contract/messaging.js';
import type { Execution } from '../execution/execution.js';
import { carrier, otherReleaseCalling } from '../execution/scope-storage.js';
import type { ProbedAttempt } from '../execution/step-probe.js';
import { parseRoles } from '../start/authorization.js';

/** Where the calling code runs: directly in a workflow, or inside one of its steps. */
export interface Scope {
  readonly execution: Execution;
  readonly step: StepScope | undefined;
}

export interface StepScope {
  readonly stepNumber: number;
  readonly attempt: number;
  readonly signal: AbortSignal;
  /**
   * What this attempt brings about if it succeeds, in order (undefined: came to nothing); null once it has ended. Taken up
   * at its end: what rejects then is what the attempt fails with.
   */
  effects: (Effect | PromiseLike<Effect | undefined>)[] | null;
  /** Asked when the step is about to go on record with its effects: what it fails with after all, if anything. */
  objections: (() => unknown)[] | undefined;
  /** This attempt, as a test kit sees it. */
  probed: ProbedAttempt | undefined;
}

export function enter<R>(scope: Scope, fn: () => R): R {
  return carrier.run(scope, fn);
}

/** Undefined outside workflows. A typed error in a workflow of another release: what it calls would not go on record. */
export function currentScope(): Scope | undefined {
  const scope = carrier.getStore() as Scope | undefined;
  if (scope) return scope;
  const other = otherReleaseCalling();
  if (other === undefined) return undefined;
  throw new HoldfastError(
    'UNSUPPORTED_CALL',
    `A workflow that runs in Holdfast ${other} called into Holdfast ${release}, which cannot record the call there. Use one ` +
      'version of the package in this process: "npm ls holdfast" shows who brings which.',
    { details: { releases: [release, other] } },
  );
}

/** The inside of a step. User code that is not repeated in a replay belongs here, not in the workflow around it. */
export function stepScope(execution: Execution, stepNumber: number, attempt: number): Scope & { step: StepScope } {
  return { execution, step: new RunningStep(execution, stepNumber, attempt) };
}

/** A class, because V8 gives every object literal with a getter a shape of its own: ten times the time and memory. */
class RunningStep implements StepScope {
  effects: StepScope['effects'] = [];
  objections: StepScope['objections'];
  probed: StepScope['probed'];

  constructor(
    private readonly execution: Execution,
    readonly stepNumber: number,
    readonly attempt: number,
  ) {}

  /** Made when it is asked for: few steps do. */
  get signal(): AbortSignal {
    return this.execution.signal;
  }
}

/** Tells a test kit that the calling step waits for this, which may take the clock to move: such a step is not at work. */
export function whileWaiting<T>(promise: Promise<T>, step = currentScope()?.step): Promise<T> {
  const over = step?.probed?.wait();
  if (over) promise.then(over, over);
  return promise;
}

/** The execution whose workflow function is calling directly, not from inside a step. */
export function currentExecution(): Execution | undefined {
  const scope = currentScope();
  return scope?.step ? undefined : scope?.execution;
}

/** The execution around a call that makes sense only in a workflow function, or a typed error. */
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

/** Refuses what a replay of the workflow function would do again: it belongs in a step, whose record a replay reads. */
export function refuseInWorkflow(call: string, advice: string): void {
  if (!currentExecution()) return;
  throw new HoldfastError(
    'UNSUPPORTED_CALL',
    `${call} cannot be called in a workflow function, because a replay would repeat it. ${advice}`,
  );
}

/** What `context()` shows to a workflow or step. */
export interface WorkflowContext {
  readonly workflowId: string;
  readonly workflowName: string;
  /** Of a workflow that is a method: its class, and the name of the instance that it is a method of. */
  readonly className: string | undefined;
  readonly configName: string | undefined;
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
  /** The role by which it was allowed to start, its own or its parent's; undefined if none was required. */
  readonly assumedRole: string | undefined;
}

/** Facts about the workflow or step that is calling. */
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
