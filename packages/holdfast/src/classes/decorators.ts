import type { WorkflowDefinition, WorkflowOptions } from '../engine/api/definition.js';
import { methodStep, type StepOptions } from '../engine/api/step.js';
import { define } from '../engine/api/workflow.js';
import { wrongOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import type { ConfiguredInstance } from './configured-instance.js';
import { instanceWorkflow, isConfigured, setClassName, staticWorkflow } from './instances.js';
import { type Class, functionsNamed, isClass, type Method, markMethod, methodOf, misuse } from './method.js';

/** An async method. A decorator cannot change the type of a method, so it returns this type, too. */
type AsyncMethod<This, Args extends unknown[], Result> = (this: This, ...args: Args) => Promise<Result>;
type Context<This> = ClassMethodDecoratorContext<This>;

export interface MethodOptions extends WorkflowOptions {
  /** The name of the workflow (default: the name of the method). */
  readonly name?: string;
}

export interface StepMethodOptions extends StepOptions {
  /** The name of the step (default: the name of the method). */
  readonly name?: string;
}

/**
 * Makes an async method a workflow. A call of the method runs the workflow and resolves with its result. `invoke`
 * starts it in other ways. The class must extend `ConfiguredInstance`, unless the method is static.
 *
 * @example
 * ```ts
 * class Shop extends ConfiguredInstance {
 *   \@workflow()
 *   async checkout(orderId: string): Promise<string> {
 *     await this.charge(orderId);
 *     return 'paid';
 *   }
 *
 *   \@step()
 *   async charge(orderId: string): Promise<void> {}
 * }
 *
 * await new Shop('norway').checkout('order-7');
 * ```
 */
export function workflow(options: MethodOptions = {}) {
  return <This extends ConfiguredInstance | Class, Args extends unknown[], Result>(
    original: AsyncMethod<This, Args, Result>,
    context: Context<This>,
  ): AsyncMethod<This, Args, Result> => {
    const method: Method = {
      definition: definitionOf(original, context, options),
      isStatic: context.static,
      owner: undefined,
    };
    const replacement = function (this: This, ...args: Args): Promise<Result> {
      const called = context.static ? workflowOfClass(this, method) : workflowOfInstance(this, method, context.name);
      return called ? called(...args) : original.apply(this, args);
    };
    Object.defineProperty(replacement, 'name', { value: String(context.name) });
    markMethod(replacement, method);
    context.addInitializer(function () {
      checkPlace(this as object, context, replacement);
      if (context.static) method.owner = this as unknown as Class;
    });
    return replacement;
  };
}

/**
 * Makes an async method of any class a step. The method may be static. `this` is the object on which it is called.
 *
 * @example
 * ```ts
 * class Cards {
 *   \@step({ retries: 3 })
 *   async charge(amount: number): Promise<string> {
 *     return await provider.charge(amount);
 *   }
 * }
 * ```
 */
export function step(options: StepMethodOptions = {}) {
  return <This, Args extends unknown[], Result>(
    original: AsyncMethod<This, Args, Result>,
    context: Context<This>,
  ): AsyncMethod<This, Args, Result> => {
    const { name, ...policy } = options;
    const replacement = methodStep(nameOf(context, name), original, policy) as AsyncMethod<This, Args, Result>;
    Object.defineProperty(replacement, 'name', { value: String(context.name) });
    return replacement;
  };
}

/** The roles of methods that `@requireRole` has decorated before `@workflow`. */
const required = processWide('requiredRoles', () => new WeakMap<object, readonly string[]>());

/**
 * Allows only callers with one of these roles to start the workflow. Use it together with `@workflow()`, in any
 * order.
 *
 * @example
 * ```ts
 * class Shop extends ConfiguredInstance {
 *   \@requireRole('admin')
 *   \@workflow()
 *   async refund(orderId: string): Promise<void> {}
 * }
 * ```
 */
export function requireRole(...roles: readonly [string, ...string[]]) {
  return <This, Args extends unknown[], Result>(
    original: AsyncMethod<This, Args, Result>,
    context: Context<This>,
  ): void => {
    const method = methodOf(original);
    if (required.has(original) || method?.definition.requireRole) throw requiredTwice(context);
    if (method) method.definition = guarded(method.definition, context, roles);
    else required.set(original, roles);
    context.addInitializer(function () {
      const found = functionsNamed(this as object, context.name).map(methodOf);
      // A required role that is never checked would be worse than no role.
      if (found.some((each) => each?.definition.requireRole === roles)) return;
      throw misuse(context.name, 'requires a role, but is not a workflow. Use @requireRole together with @workflow().');
    });
  };
}

/**
 * Sets the name under which the workflows of a class are stored (default: the name of the class).
 *
 * @example
 * ```ts
 * \@className('shop.Shop')
 * class Shop extends ConfiguredInstance {}
 * ```
 */
export function className(name: string) {
  return (given: Class, _context: ClassDecoratorContext): void => setClassName(given, name);
}

function definitionOf<This>(original: object, context: Context<This>, options: MethodOptions): WorkflowDefinition {
  const { name: given, ...workflowOptions } = options;
  const name = nameOf(context, given);
  if (context.private) {
    throw misuse(context.name, 'is private, but Holdfast calls a workflow from outside its class. Make it public.');
  }
  const roles = required.get(original);
  if (roles && workflowOptions.requireRole) throw requiredTwice(context);
  const checked = roles ? { ...workflowOptions, requireRole: roles } : workflowOptions;
  return define(name, original as WorkflowDefinition['fn'], checked);
}

function guarded<This>(definition: WorkflowDefinition, context: Context<This>, roles: readonly string[]) {
  define(nameOf(context, definition.name), definition.fn, { requireRole: roles });
  return { ...definition, requireRole: roles };
}

function requiredTwice<This>({ name }: Context<This>): Error {
  return wrongOption(`Method "${String(name)}"`, 'requireRole', 'is given twice: name all roles in one place');
}

function nameOf<This>(context: Context<This>, given: string | undefined): string {
  if (given !== undefined) return given;
  if (typeof context.name === 'string') return context.name;
  throw wrongOption(`Method ${String(context.name)}`, 'name', 'is missing: a symbol cannot be stored');
}

/**
 * Checks the use of the decorator, once per instance, or once per class if the method is static. Finds mistakes that
 * the compiler does not report in plain JavaScript. Also finds decorators that replace the function of `@workflow()`:
 * the workflow would not be found.
 */
function checkPlace<This>(target: object, context: Context<This>, replacement: object): void {
  if (!context.static && !isConfigured(target)) {
    throw misuse(context.name, `is a workflow, so class "${target.constructor.name}" must extend ConfiguredInstance.`);
  }
  if (functionsNamed(target, context.name).includes(replacement)) return;
  throw misuse(context.name, 'is wrapped by another decorator. Put @workflow() above that decorator.');
}

/**
 * Returns undefined if an overriding method calls the method by `super`. The method then runs as a part of that call.
 */
function workflowOfInstance(receiver: unknown, method: Method, name: PropertyKey) {
  if (isConfigured(receiver)) return instanceWorkflow(receiver, method);
  throw misuse(name, 'was called without its instance. Call it as instance.method(...), or bind it.');
}

function workflowOfClass(receiver: unknown, method: Method) {
  const { owner } = method;
  const isSubclass = isClass(receiver) && owner !== undefined && Object.prototype.isPrototypeOf.call(owner, receiver);
  const Class = isSubclass ? receiver : owner;
  return Class && staticWorkflow(Class, method);
}
