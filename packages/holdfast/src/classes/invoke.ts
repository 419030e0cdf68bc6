import type { Workflow } from '../engine/api/workflow.js';
import { invalidOption } from '../model/options.js';
import type { ConfiguredInstance } from './configured-instance.js';
import { isConfigured, workflowsByMethod } from './instances.js';
import { type Class, isClass, misuse } from './method.js';

/** The async methods of an instance, or the static ones of a class, each as a workflow. */
export type Invocations<T> = {
  readonly [K in keyof T as T[K] extends (...args: never[]) => Promise<unknown> ? K : never]: T[K] extends (
    ...args: infer Args
  ) => Promise<infer Result>
    ? Workflow<Args, Result>
    : never;
};

/**
 * The workflows of an instance, or the static ones of a class, as `workflow()` makes them: to start in the background,
 * with options, on a queue, and to give to `schedule` and `debouncer`.
 */
export function invoke<T extends ConfiguredInstance | Class>(target: T): Invocations<T> {
  if (!isConfigured(target) && !isClass(target)) {
    throw invalidOption('invoke()', 'target', target, 'a ConfiguredInstance or a class');
  }
  const workflows = workflowsByMethod(target);
  return new Proxy(Object.fromEntries(workflows) as Invocations<T>, {
    get: (found, key, receiver) => {
      // Asked for by `await` and by whatever prints it, not by its user.
      if (workflows.has(key) || typeof key === 'symbol' || key === 'then') return Reflect.get(found, key, receiver);
      throw misuse(key, 'is no workflow: @workflow() makes it one.');
    },
  });
}
