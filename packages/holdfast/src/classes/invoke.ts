import type { Workflow } from '../engine/api/workflow.js';
import { invalidOption } from '../model/options.js';
import type { ConfiguredInstance } from './configured-instance.js';
import { isConfigured, workflowsByMethod } from './instances.js';
import { type Class, isClass, misuse } from './method.js';

/** The async methods of an instance, or the static async methods of a class, each as a workflow. */
export type Invocations<T> = {
  readonly [K in keyof T as T[K] extends (...args: never[]) => Promise<unknown> ? K : never]: T[K] extends (
    ...args: infer Args
  ) => Promise<infer Result>
    ? Workflow<Args, Result>
    : never;
};

/**
 * Returns the workflows of an instance, or the static workflows of a class, in the form that `workflow()` returns.
 * Use them to start in the background, with options or on a queue, and to pass them to `schedule` and `debouncer`.
 *
 * @example
 * ```ts
 * const { checkout } = invoke(norway); // an instance of a class with `@workflow() checkout(...)`
 * const handle = await checkout.with({ id: 'order-7' }).start('order-7');
 * ```
 */
export function invoke<T extends ConfiguredInstance | Class>(target: T): Invocations<T> {
  if (!isConfigured(target) && !isClass(target)) {
    throw invalidOption('invoke()', 'target', target, 'a ConfiguredInstance or a class');
  }
  const workflows = workflowsByMethod(target);
  return new Proxy(Object.fromEntries(workflows) as Invocations<T>, {
    get: (found, key, receiver) => {
      // `await` reads `then`, and functions that print the object read symbols. Neither may throw.
      if (workflows.has(key) || typeof key === 'symbol' || key === 'then') return Reflect.get(found, key, receiver);
      throw misuse(key, 'is not a workflow. Decorate it with @workflow().');
    },
  });
}
