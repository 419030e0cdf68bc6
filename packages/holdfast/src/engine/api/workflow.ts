import type { StandardSchemaV1 } from '@standard-schema/spec';
import { checkMaxValueBytes } from '../../codec/codecs.js';
import { parseDuration } from '../../model/duration.js';
import { HoldfastError } from '../../model/errors.js';
import { checkUserName } from '../../model/ids.js';
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
import type {
  FunctionArguments,
  FunctionResult,
  SchemaOptions,
  WorkflowDefinition,
  WorkflowOptions,
  WorkflowResult,
} from './definition.js';
import { childResult, createHandle, type WorkflowHandle } from './handle.js';
import { checkSomeStartOptions, checkStartOptionsTogether, type StartOptions } from './start-options.js';

/** A workflow that you call like a function, or start in the background. */
export interface Invocation<Args extends unknown[], Result> {
  /**
   * Starts the workflow and waits until it ends. Resolves with the returned value. In a workflow function, the started
   * workflow is a child of the calling workflow.
   *
   * @example
   * ```ts
   * const checkout = workflow('checkout', async (order: Order) => {
   *   const payment = await run('charge', () => charge(order));
   *   return payment.id;
   * });
   * const paymentId = await checkout(order);
   * ```
   */
  (...args: Args): Promise<Result>;
  /**
   * Starts the workflow in the background. Resolves with a handle once the start is committed: from then on, a crash
   * cannot lose the workflow.
   *
   * @example
   * ```ts
   * const handle = await checkout.start(order);
   * console.log(`Started ${handle.id}`);
   * const paymentId = await handle.result();
   * ```
   */
  start(...args: Args): Promise<WorkflowHandle<Result>>;
  /**
   * Enqueues one workflow for each list of arguments, all of them or none, in one statement. Resolves with the handles
   * in the order of `inputs`. `each` returns start options for one workflow; these options override the options of
   * `with()`.
   *
   * In a workflow function, the workflows are children and start one by one. If a crash interrupts the call, the replay
   * starts the remaining children.
   *
   * @example
   * ```ts
   * const handles = await checkout.with({ queue: 'orders' }).startAll(
   *   orders.map((order) => [order]),
   *   ([order]) => ({ id: `order-${order.id}` }),
   * );
   * const paymentIds = await Promise.all(handles.map((handle) => handle.result()));
   * ```
   */
  startAll(
    inputs: readonly Readonly<Args>[],
    each?: (args: Readonly<Args>, index: number) => StartOptions,
  ): Promise<WorkflowHandle<Result>[]>;
}

/** A durable function, as `workflow()` returns it. */
export interface Workflow<Args extends unknown[] = never[], Result = unknown> extends Invocation<Args, Result> {
  /** The name that was given to `workflow()`. */
  readonly workflowName: string;
  /**
   * Returns the same workflow with start options for the next call.
   *
   * @example
   * ```ts
   * // A repeated call with the same ID returns the result of the first run.
   * const paymentId = await checkout.with({ id: 'order-7', timeout: '10m' })(order);
   * // On a queue, in the background:
   * const handle = await checkout.with({ queue: 'orders', priority: 1 }).start(order);
   * ```
   */
  with(options: StartOptions): Invocation<Args, Result>;
}

// biome-ignore lint/suspicious/noExplicitAny: any workflow, whatever its arguments and result.
export type AnyWorkflow = Workflow<any[], any>;

const internals = Symbol.for(`holdfast.workflow@${release}`);

interface WorkflowInternals {
  readonly definition: WorkflowDefinition;
}

/**
 * Defines a workflow: an async function that runs to its end even if its process dies. Holdfast records each step.
 * After a crash, Holdfast runs the function again from the top, and recorded steps return their recorded outcomes.
 *
 * The function must be deterministic. Use `run` or `step` for everything that reads or changes the outside world, and
 * `now`, `random` and `uuid` for time and random values. The definition itself starts and registers nothing: pass the
 * workflow to `launch({ workflows })`.
 *
 * With an `input` schema, the function gets the first argument as the schema returns it.
 *
 * @example
 * ```ts
 * const Order = z.object({ id: z.string(), cents: z.number().positive() });
 * const checkout = workflow(
 *   'checkout',
 *   async (order) => run('charge', () => charge(order.id, order.cents)),
 *   { input: Order },
 * );
 * ```
 */
export function workflow<
  Rest extends unknown[],
  Result,
  // Some compilers print the errors of both overloads. With this default, this overload reports no error about the
  // arguments of a call without a schema.
  In extends StandardSchemaV1 = StandardSchemaV1<never, never>,
  Out extends StandardSchemaV1 | undefined = undefined,
>(
  name: string,
  fn: (input: StandardSchemaV1.InferOutput<In>, ...rest: Rest) => FunctionResult<Out, Result>,
  options: SchemaOptions<In, Out> & { readonly input: In },
): Workflow<[input: StandardSchemaV1.InferInput<In>, ...rest: Rest], WorkflowResult<Out, Result>>;
// The overload without an input schema. It is the last overload, so that the compiler prints the error of this overload
// if a schema does not fit.
/**
 * Defines a workflow: an async function that runs to its end even if its process dies. Holdfast records each step.
 * After a crash, Holdfast runs the function again from the top, and recorded steps return their recorded outcomes.
 *
 * The function must be deterministic. Use `run` or `step` for everything that reads or changes the outside world, and
 * `now`, `random` and `uuid` for time and random values. The definition itself starts and registers nothing: pass the
 * workflow to `launch({ workflows })`.
 *
 * @example
 * ```ts
 * const checkout = workflow('checkout', async (order: Order) => {
 *   const payment = await run('charge', () => charge(order), { retries: 3 });
 *   await sleep('1 day');
 *   await run('ask for a review', () => sendReviewMail(order));
 *   return payment.id;
 * });
 * ```
 */
export function workflow<
  Args extends unknown[],
  Result,
  In extends StandardSchemaV1 | undefined = undefined,
  Out extends StandardSchemaV1 | undefined = undefined,
>(
  name: string,
  fn: (...args: FunctionArguments<In, Args>) => FunctionResult<Out, Result>,
  options?: SchemaOptions<In, Out>,
): Workflow<Args, WorkflowResult<Out, Result>>;
export function workflow<Args extends unknown[], Result>(
  name: string,
  fn: (...args: Args) => Result,
  options: WorkflowOptions = {},
): Workflow<Args, Awaited<Result>> {
  return workflowOf(define(name, fn as WorkflowDefinition['fn'], options));
}

/** Builds the callable workflow of a definition. */
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

/**
 * Returns the internals of a workflow that this release made, in this copy of the package or in another. Undefined for
 * every other value.
 */
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

/** Returns the release that made a workflow, if that release is not ours. We do not know the members of its objects. */
export function otherReleaseOfWorkflow(value: unknown): string | undefined {
  return otherReleaseOf(value, 'workflow');
}

/** Checks the name and the options, and returns the definition of a plain function. */
export function define(name: string, fn: WorkflowDefinition['fn'], options: WorkflowOptions): WorkflowDefinition {
  checkUserName('A workflow name', name);
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
    // All step numbers are taken synchronously, before the first await. Group commit writes the starts together.
    const started = items.map((item) =>
      startChild(parent, parent.takeStepNumber(), definition, item.options, item.args),
    );
    const ids = await Promise.all(started);
    return ids.map((id) => createHandle<Result>(parent.engine, id));
  }
  const { engine, definition } = callTarget(own.definition, options);
  engine.lifecycle.checkOpen();
  const ids = await enqueueTogether(engine, definition, items);
  return ids.map((id) => createHandle<Result>(engine, id));
}

/**
 * A call of a child takes two step numbers of its parent, one for the start and one for the result. Both numbers are
 * taken synchronously, before the first await.
 */
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
  /** The definition that the parent's app has registered. */
  readonly definition: WorkflowDefinition;
}

/** Returns the child to start if a workflow function makes the call. Undefined outside workflows. */
function childOf(own: WorkflowInternals, options: StartOptions): Child | undefined {
  const scope = currentScope();
  if (!scope) return undefined;
  const name = describeKey(own.definition);
  if (scope.step) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `Workflow "${name}" was called inside a step. A retry of the step would start the workflow again. ` +
        'Call it from the workflow function.',
      { details: { name } },
    );
  }
  const { engine } = scope.execution;
  if (options.app !== undefined && options.app !== engine.app) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `Workflow "${name}" cannot start as a child in an app other than its parent's app. ` +
        'Leave out the option "app", or start the workflow from code outside of workflows.',
      { details: { name } },
    );
  }
  const definition = registeredIn(engine, own.definition) ?? engine.registry.require(own.definition);
  return { parent: scope.execution, definition };
}
