import type { WorkflowDefinition, WorkflowOptions } from '../engine/api/definition.js';
import { methodStep, type StepOptions } from '../engine/api/step.js';
import { define } from '../engine/api/workflow.js';
import { misplacedOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import type { ConfiguredInstance } from './configured-instance.js';
import { instanceWorkflow, isConfigured, setClassName, staticWorkflow } from './instances.js';
import { type Class, functionsNamed, isClass, type Method, mark, methodOf, misuse } from './method.js';

/** An async method, and the decorator of one. The type of a member cannot be changed by a decorator. */
type AsyncMethod<This, Args extends unknown[], Result> = (this: This, ...args: Args) => Promise<Result>;
type Context<This> = ClassMethodDecoratorContext<This>;

export interface MethodOptions extends WorkflowOptions {
  /** The workflow's name (default: the method's). */
  readonly name?: string;
}

export interface StepMethodOptions extends StepOptions {
  /** The step's name (default: the method's). */
  readonly name?: string;
}

/**
 * Makes an async method a workflow. Called on its instance, or on its class if it is static, it runs to its end; it is
 * started in other ways through `invoke`. The class extends `ConfiguredInstance`, unless the method is static.
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
      const found = context.static ? ofClass(this, method) : ofInstance(this, method, context.name);
      return found ? found(...args) : original.apply(this, args);
    };
    Object.defineProperty(replacement, 'name', { value: String(context.name) });
    mark(replacement, method);
    context.addInitializer(function () {
      checkPlace(this as object, context, replacement);
      if (context.static) method.owner = this as unknown as Class;
    });
    return replacement;
  };
}

/** Makes an async method a step: of whatever class, static or not. Its `this` is what it is called on. */
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

/** Roles that a method requires, until the decorator that makes it a workflow comes to it. */
const required = processWide('requiredRoles', () => new WeakMap<object, readonly string[]>());

/** Only who has one of these roles may start the workflow. Goes with `@workflow()`, before it or after. */
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
      // A role that nobody checks is worse than none.
      if (found.some((each) => each?.definition.requireRole === roles)) return;
      throw misuse(context.name, 'requires a role, but is no workflow: @requireRole goes with @workflow().');
    });
  };
}

/** The name under which the workflows of a class are stored (default: the name of the class). */
export function className(name: string) {
  return (given: Class, _context: ClassDecoratorContext): void => setClassName(given, name);
}

function definitionOf<This>(original: object, context: Context<This>, options: MethodOptions): WorkflowDefinition {
  const { name: given, ...rest } = options;
  const name = nameOf(context, given);
  if (context.private) throw misuse(context.name, 'is private: a workflow is called from outside its class too.');
  const roles = required.get(original);
  if (roles && rest.requireRole) throw requiredTwice(context);
  // Checked as those of a plain function are.
  return define(name, original as WorkflowDefinition['fn'], roles ? { ...rest, requireRole: roles } : rest);
}

function guarded<This>(definition: WorkflowDefinition, context: Context<This>, roles: readonly string[]) {
  define(nameOf(context, definition.name), definition.fn, { requireRole: roles });
  return { ...definition, requireRole: roles };
}

function requiredTwice<This>({ name }: Context<This>): Error {
  return misplacedOption(`Method "${String(name)}"`, 'requireRole', 'is given twice: name all roles in one place');
}

function nameOf<This>(context: Context<This>, given: string | undefined): string {
  if (given !== undefined) return given;
  if (typeof context.name === 'string') return context.name;
  throw misplacedOption(`Method ${String(context.name)}`, 'name', 'is missing: a symbol cannot be stored');
}

/**
 * Once per construction, or per class if it is static: mistakes that the compiler does not see in plain JavaScript, and
 * those of a decorator which replaces what `@workflow()` made: nobody would find the workflow.
 */
function checkPlace<This>(target: object, context: Context<This>, replacement: object): void {
  if (!context.static && !isConfigured(target)) {
    throw misuse(context.name, `is a workflow: class "${target.constructor.name}" must extend ConfiguredInstance.`);
  }
  if (functionsNamed(target, context.name).includes(replacement)) return;
  throw misuse(context.name, 'is wrapped by another decorator: put @workflow() first, before all others.');
}

/** Undefined: it is called by `super`, and part of the method that overrides it. */
function ofInstance(receiver: unknown, method: Method, name: PropertyKey) {
  if (isConfigured(receiver)) return instanceWorkflow(receiver, method);
  throw misuse(name, 'was called without its instance: call it as instance.method(...), or bind it.');
}

function ofClass(receiver: unknown, method: Method) {
  const { owner } = method;
  const ofSubclass = isClass(receiver) && owner !== undefined && Object.prototype.isPrototypeOf.call(owner, receiver);
  const given = ofSubclass ? receiver : owner;
  return given && staticWorkflow(given, method);
}
