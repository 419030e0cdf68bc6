import type { WorkflowDefinition } from '../engine/api/definition.js';
import { workflowInternals } from '../engine/api/workflow.js';
import { HoldfastError } from '../model/errors.js';
import { release } from '../model/release.js';

/**
 * A method that is a workflow: what its decorator leaves on the function that takes the method's place. The class it
 * belongs to is not known then, and its instances do not exist yet; `instances.ts` brings them together.
 */
export interface Method {
  /** As of a plain function; class and instance are still to come. */
  definition: WorkflowDefinition;
  readonly isStatic: boolean;
  /** The class that a static method was written in. */
  owner: Class | undefined;
}

/** Any class, also an abstract one. */
export type Class = abstract new (...args: never[]) => object;

/** Under which a method's function keeps what it is, also for another copy of the package. */
const methodKey = Symbol.for(`holdfast.method@${release}`);

export function mark(replacement: object, method: Method): void {
  Object.defineProperty(replacement, methodKey, { value: method });
}

export function methodOf(value: unknown): Method | undefined {
  return typeof value === 'function' ? (value as { [methodKey]?: Method })[methodKey] : undefined;
}

/** The workflows among the methods of a class, the inherited ones included: static ones, or those of its instances. */
export function methodsOf(given: Class, kind: 'static' | 'instance'): Map<PropertyKey, Method> {
  const found = new Map<PropertyKey, Method>();
  const seen = new Set<PropertyKey>();
  for (const holder of chainOf(kind === 'static' ? given : given.prototype)) {
    for (const key of Reflect.ownKeys(holder)) {
      // What a subclass overrides is not its workflow any more, but what `super` calls.
      if (seen.has(key)) continue;
      seen.add(key);
      const method = methodOf(ownValue(holder, key));
      if (method) found.set(key, method);
    }
  }
  return found;
}

/** The functions that an object or class has under a name, its own first: without running a getter. */
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
