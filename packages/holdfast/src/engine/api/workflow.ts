import type { StandardSchemaV1 } from '@standard-schema/spec';
import { checkMaxValueBytes } from '../../codec/codec.js';
import { parseDuration } from '../../model/duration.js';
import { HoldfastError } from '../../model/errors.js';
import { checkOwnName } from '../../model/ids.js';
import { checkKnownOptions, invalidOption } from '../../model/options.js';
import { otherReleaseOf } from '../../model/process-wide.js';
import { checkWorkflowRecovery } from '../../model/recovery.js';
import { release } from '../../model/release.js';
import { describeKey, plainKey } from '../../model/workflow-key.js';
import type { Execution } from '../execution/execution.js';
import { batchItems, enqueueTogether } from '../start/enqueue.js';
import { startChild, startWorkflow } from '../start/start.js';
import { callTarget, registeredIn } from './call-target.js';
import { currentExecution, currentScope } from './context.js';
import type { Ended, Returned, SchemaOptions, Taken, WorkflowDefinition, WorkflowOptions } from './definition.js';
import { childResult, createHandle, type WorkflowHandle } from './handle.js';
import { checkSomeStartOptions, checkStartOptionsTogether, type StartOptions } from './start-options.js';

/** A workflow to call like any function, or to start in the background. */
export interface Invocation<Args extends unknown[], Result> {
  /** Runs to its end. */
  (...args: Args): Promise<Result>;
  /** Starts in the background; resolves once the start is durable. */
  start(...args: Args): Promise<WorkflowHandle<Result>>;
  /**
   * Enqueues one workflow for each list of arguments: all of them or none, in one statement. `each` gives options of its
   * own to a single one. Inside a workflow they are children, started one by one (and all of them, sooner or later).
   */
  startAll(
    inputs: readonly Readonly<Args>[],
    each?: (args: Readonly<Args>, index: number) => StartOptions,
  ): Promise<WorkflowHandle<Result>[]>;
}

export interface Workflow<Args extends unknown[] = never[], Result = unknown> extends Invocation<Args, Result> {
  readonly workflowName: string;
  /** The same workflow, started with these options. */
  with(options: StartOptions): Invocation<Args, Result>;
}

// biome-ignore lint/suspicious/noExplicitAny: any workflow, whatever its arguments and result.
export type AnyWorkflow = Workflow<any[], any>;

const internals = Symbol.for(`holdfast.workflow@${release}`);

interface WorkflowInternals {
  readonly definition: WorkflowDefinition;
}

/**
 * Defines a workflow: an async function whose steps are recorded, so that it goes on after a crash where it was.
 * Nothing is registered, opened or started until `launch` is given the workflow.
 */
export function workflow<
  Rest extends unknown[],
  Result,
  // The default is for compilers that print the errors of both overloads: without a schema, this one objects to no argument.
  In extends StandardSchemaV1 = StandardSchemaV1<never, never>,
  Out extends StandardSchemaV1 | undefined = undefined,
>(
  name: string,
  fn: (input: StandardSchemaV1.InferOutput<In>, ...rest: Rest) => Returned<Out, Result>,
  options: SchemaOptions<In, Out> & { readonly input: In },
): Workflow<[input: StandardSchemaV1.InferInput<In>, ...rest: Rest], Ended<Out, Result>>;
// Without an input schema. With one that does not fit it comes last too, and its error is the one that the compiler prints.
export function workflow<
  Args extends unknown[],
  Result,
  In extends StandardSchemaV1 | undefined = undefined,
  Out extends StandardSchemaV1 | undefined = undefined,
>(
  name: string,
  fn: (...args: Taken<In, Args>) => Returned<Out, Result>,
  options?: SchemaOptions<In, Out>,
): Workflow<Args, Ended<Out, Result>>;
export function workflow<Args extends unknown[], Result>(
  name: string,
  fn: (...args: Args) => Result,
  options: WorkflowOptions = {},
): Workflow<Args, Awaited<Result>> {
  return workflowOf(define(name, fn as WorkflowDefinition['fn'], options));
}

/** A workflow to call, from what the engine is to know of it. */
export function workflowOf<Args extends unknown[], Result>(definition: WorkflowDefinition): Workflow<Args, Result> {
  const own: WorkflowInternals = { definition };
  return Object.assign(invocation<Args, Result>(own, {}), {
    workflowName: definition.name,
    with: (startOptions: StartOptions) => {
      checkSomeStartOptions(definition.name, startOptions);
      return invocation<Args, Result>(own, startOptions);
    },
    [internals]: own,
  });
}

/** What the engine knows of a value if it is a workflow, made by this copy of the package or another. */
export function workflowInternals(value: unknown): WorkflowInternals | undefined {
  if (typeof value !== 'function' || !(internals in value)) return undefined;
  return (value as unknown as { [internals]: WorkflowInternals })[internals];
}

const workflowOptionNames = [
  'maxRecoveryAttempts',
  'recovery',
  'resumable',
  'timeout',
  'input',
  'output',
  'serialization',
  'requireRole',
  'maxValueBytes',
];

/** The release that made a workflow, if that is not ours: we do not know what its objects look like. */
export function otherReleaseOfWorkflow(value: unknown): string | undefined {
  return otherReleaseOf(value, 'workflow');
}

/** What the engine is to know of a plain function that becomes a workflow. */
export function define(name: string, fn: WorkflowDefinition['fn'], options: WorkflowOptions): WorkflowDefinition {
  checkOwnName('A workflow name', name);
  const what = `Workflow "${name}"`;
  if (typeof fn !== 'function') throw invalidOption(what, 'fn', fn, 'a function');
  checkKnownOptions(what, options, workflowOptionNames);
  const { timeout, input, output, serialization = 'native', requireRole } = options;
  if (serialization !== 'native' && serialization !== 'portable') {
    throw invalidOption(what, 'serialization', serialization, '"native" or "portable"');
  }
  for (const [option, schema] of Object.entries({ input, output })) {
    if (schema && !('~standard' in schema)) throw invalidOption(what, option, schema, 'a Standard Schema');
  }
  if (requireRole !== undefined && !isListOfRoles(requireRole)) {
    throw invalidOption(what, 'requireRole', requireRole, 'a list of at least one role');
  }
  return {
    ...plainKey(name),
    fn,
    source: fn.toString(),
    recovery: checkWorkflowRecovery(what, options),
    timeoutMs: timeout === undefined ? null : parseDuration(timeout, `The timeout of ${what}`),
    input,
    output,
    serialization,
    requireRole,
    maxBytes: checkMaxValueBytes(what, options.maxValueBytes),
  };
}

function isListOfRoles(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((role) => typeof role === 'string' && role !== '');
}

function invocation<Args extends unknown[], Result>(
  own: WorkflowInternals,
  options: StartOptions,
): Invocation<Args, Result> {
  const { name } = own.definition;
  const call = (...args: Args): Promise<Result> => {
    checkStartOptionsTogether(name, options);
    const child = childOf(own, options);
    if (child) return callChild(child, options, args) as Promise<Result>;
    return startRoot<Result>(own, options, args).then((handle) => handle.result());
  };
  const start = (...args: Args): Promise<WorkflowHandle<Result>> => {
    checkStartOptionsTogether(name, options);
    const child = childOf(own, options);
    if (!child) return startRoot(own, options, args);
    const { parent, definition } = child;
    const stepNumber = parent.takeStepNumber();
    const started = startChild(parent, stepNumber, definition, options, args);
    const handle = started.then((id) => createHandle<Result>(parent.engine, id));
    return parent.calls.follow(definition.name, stepNumber, handle);
  };
  const startAll: Invocation<Args, Result>['startAll'] = (inputs, each) => {
    const started = startMany<Args, Result>(own, options, inputs, each);
    return currentExecution()?.calls.follow(`startAll() of "${own.definition.name}"`, undefined, started) ?? started;
  };
  return Object.assign(call, { start, startAll });
}

async function startMany<Args extends unknown[], Result>(
  own: WorkflowInternals,
  options: StartOptions,
  inputs: readonly Readonly<Args>[],
  each: ((args: Readonly<Args>, index: number) => StartOptions) | undefined,
): Promise<WorkflowHandle<Result>[]> {
  const items = batchItems(own.definition.name, options, inputs, each);
  const child = childOf(own, options);
  if (child) {
    const { parent, definition } = child;
    // Numbers are taken in this turn, before anything is awaited; the starts go together by group commit.
    const started = items.map((item) =>
      startChild(parent, parent.takeStepNumber(), definition, item.options, item.args),
    );
    const ids = await Promise.all(started);
    return ids.map((id) => createHandle<Result>(parent.engine, id));
  }
  const { engine, definition } = callTarget(own.definition, options);
  engine.checkOpen();
  const ids = await enqueueTogether(engine, definition, items);
  return ids.map((id) => createHandle<Result>(engine, id));
}

/** A call takes two steps of its parent, start and result. Both numbers are taken now, before anything is awaited. */
function callChild({ parent, definition }: Child, options: StartOptions, args: unknown[]): Promise<unknown> {
  const startNumber = parent.takeStepNumber();
  const resultNumber = parent.takeStepNumber();
  const started = startChild(parent, startNumber, definition, options, args);
  const result = started.then((id) => childResult(parent, resultNumber, id));
  return parent.calls.follow(definition.name, startNumber, result);
}

async function startRoot<Result>(
  own: WorkflowInternals,
  options: StartOptions,
  args: unknown[],
): Promise<WorkflowHandle<Result>> {
  const { engine, definition } = callTarget(own.definition, options);
  return createHandle<Result>(engine, await startWorkflow(engine, definition, options, args));
}

interface Child {
  readonly parent: Execution;
  /** What the parent's app has registered. */
  readonly definition: WorkflowDefinition;
}

/** The child that the workflow is started as, if the call comes from a workflow function. */
function childOf(own: WorkflowInternals, options: StartOptions): Child | undefined {
  const scope = currentScope();
  if (!scope) return undefined;
  const name = describeKey(own.definition);
  if (scope.step) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `Workflow "${name}" was called inside a step. A step that is tried again would start it again: call it from the workflow.`,
      { details: { name } },
    );
  }
  const { engine } = scope.execution;
  if (options.app !== undefined && options.app !== engine.app) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `Workflow "${name}" cannot be a child in another app than its parent's: leave out the option "app", or start it from outside.`,
      { details: { name } },
    );
  }
  const definition = registeredIn(engine, own.definition) ?? engine.registry.require(own.definition);
  return { parent: scope.execution, definition };
}
