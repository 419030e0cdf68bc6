import type { WorkflowDefinition } from '../engine/api/definition.js';
import { workflowInternals } from '../engine/api/workflow.js';
import { HoldfastError } from '../model/errors.js';
import { release } from '../model/release.js';

/**
 * A method that is a workflow. The decorator stores this data on the function that replaces the method. At that time
 * the class is not known and has no instances; `instances.ts` adds class and instance later.
 */
export interface Method {
  /** The definition of the function, without class and instance. */
  definition: WorkflowDefinition;
  readonly isStatic: boolean;
  /** The class that defines a static method. */
  owner: Class | undefined;
}

/** Any class, including an abstract class. */
export type Class = abstract new (...args: never[]) => object;

/** The key of the {@link Method} on the function of a method. Other copies of the package use the same key. */
const methodKey = Symbol.for(`holdfast.method@${release}`);

export function markMethod(replacement: object, method: Method): void {
  Object.defineProperty(replacement, methodKey, { value: method });
}

export function methodOf(value: unknown): Method | undefined {
  return typeof value === 'function' ? (value as { [methodKey]?: Method })[methodKey] : undefined;
}

/**
 * Returns the workflow methods of a class, including inherited methods: the static methods or the instance methods.
 */
export function methodsOf(given: Class, kind: 'static' | 'instance'): Map<PropertyKey, Method> {
  const found = new Map<PropertyKey, Method>();
  const seen = new Set<PropertyKey>();
  for (const holder of chainOf(kind === 'static' ? given : given.prototype)) {
    for (const key of Reflect.ownKeys(holder)) {
      // A method that a subclass overrides is no workflow of the subclass. Only `super` calls it.
      if (seen.has(key)) continue;
      seen.add(key);
      const method = methodOf(ownValue(holder, key));
      if (method) found.set(key, method);
    }
  }
  return found;
}

/** Returns the functions of a name that an object or class has or inherits, its own first. Runs no getter. */
export function functionsNamed(target: object, key: PropertyKey): unknown[] {
  return [...chainOf(target)].map((holder) => ownValue(holder, key)).filter((value) => typeof value === 'function');
}

function ownValue(holder: object, key: PropertyKey): unknown {
  return Object.getOwnPropertyDescriptor(holder, key)?.value;
}

function* chainOf(target: object): Generator<object> {
  let holder: object | null = target;
  while (holder !== null && holder !== Object.prototype && holder !== Function.prototype) {
    yield holder;
    holder = Object.getPrototypeOf(holder);
  }
}

export function isClass(value: unknown): value is Class {
  return typeof value === 'function' && typeof value.prototype === 'object' && !workflowInternals(value);
}

export function misuse(name: PropertyKey, problem: string): HoldfastError {
  const text = String(name);
  return new HoldfastError('UNSUPPORTED_CALL', `Method "${text}" ${problem}`, { details: { name: text } });
}
