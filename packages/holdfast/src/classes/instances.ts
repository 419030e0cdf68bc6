import type { WorkflowDefinition } from '../engine/api/definition.js';
import { type AnyWorkflow, workflowOf } from '../engine/api/workflow.js';
import { HoldfastError } from '../model/errors.js';
import { checkClassName } from '../model/ids.js';
import { release } from '../model/release.js';
import { type Class, isClass, type Method, methodsOf } from './method.js';

/**
 * Classes, their instances, and the workflows that their methods are.
 *
 * An instance is registered with its class, for as long as that lives, and with every running app that was given the
 * class. There is no list of all instances of the process: two apps in it have different ones, and two classes of one
 * name (in two packages, or two tests) do not meet unless one app is given both.
 */

/** Hears of an instance that was constructed later. */
export type Watcher = (workflows: readonly AnyWorkflow[], instance: { className: string; configName: string }) => void;

/** What belongs to one class, not to those that extend it. */
interface ClassRecord {
  name: string | undefined;
  readonly instances: Map<string, Configured>;
  readonly statics: Map<Method, AnyWorkflow>;
  readonly watchers: Set<Watcher>;
}

interface InstanceRecord {
  readonly configName: string;
  readonly definedBy: Class;
  /** Of each method that is a workflow and not overridden. */
  readonly workflows: ReadonlyMap<Method, AnyWorkflow>;
}

const classKey = Symbol.for(`holdfast.class@${release}`);
const instanceKey = Symbol.for(`holdfast.instance@${release}`);

interface Configured {
  readonly [instanceKey]: InstanceRecord;
}

function recordOf(given: Class): ClassRecord {
  const holder = given as Class & { [classKey]?: ClassRecord };
  if (!Object.hasOwn(given, classKey)) {
    const record = { name: undefined, instances: new Map(), statics: new Map(), watchers: new Set<Watcher>() };
    Object.defineProperty(given, classKey, { value: record });
  }
  return holder[classKey] as ClassRecord;
}

export function setClassName(given: Class, name: string): void {
  recordOf(given).name = checkClassName('A class name', name);
}

/** The name under which the workflows of a class are stored. */
function classNameOf(given: Class): string {
  const { name } = recordOf(given);
  if (name !== undefined) return name;
  if (given.name !== '') return checkClassName('A class name', given.name);
  throw new HoldfastError('INVALID_NAME', "A class with workflows needs a name. Give it one: @className('...').");
}

export function isConfigured(value: unknown): value is Configured {
  return typeof value === 'object' && value !== null && instanceKey in value;
}

/**
 * Registers an instance with its class and with the running apps that have the class. It is not finished: the rest of
 * its constructor runs next, in the same turn, before any app can have claimed work for it.
 */
export function register(instance: object, definedBy: Class, given: string): void {
  const configName = checkClassName('The name of an instance', given);
  const className = classNameOf(definedBy);
  const record = recordOf(definedBy);
  if (record.instances.has(configName)) {
    throw new HoldfastError(
      'DUPLICATE_WORKFLOW',
      `Class "${className}" has an instance named "${configName}" already. A stored workflow finds its instance by this ` +
        'name: give the new one another, or use the one that there is. If the constructor of that one has thrown, do what ' +
        'can fail before super(), or in a method: nobody can see that an object was not finished.',
      { details: { className, configName } },
    );
  }
  const workflows = new Map(
    [...methodsOf(definedBy, 'instance').values()].map((method) => {
      const { definition } = method;
      return [method, workflowOf(bound(definition, instance, className, configName))];
    }),
  );
  const own: InstanceRecord = { configName, definedBy, workflows };
  Object.defineProperty(instance, instanceKey, { value: own });
  record.instances.set(configName, instance as Configured);
  for (const watcher of record.watchers) watcher([...workflows.values()], { className, configName });
}

function bound(
  definition: WorkflowDefinition,
  receiver: object,
  className: string,
  configName: string | null,
): WorkflowDefinition {
  return { ...definition, className, configName, fn: (...args) => definition.fn.apply(receiver, args) };
}

/** The workflow that a method of an instance is; undefined if a subclass overrides it. */
export function instanceWorkflow(instance: Configured, method: Method): AnyWorkflow | undefined {
  return instance[instanceKey].workflows.get(method);
}

/** The same for a static method. */
export function staticWorkflow(given: Class, method: Method): AnyWorkflow | undefined {
  const { statics } = recordOf(given);
  const existing = statics.get(method);
  if (existing) return existing;
  if (![...methodsOf(given, 'static').values()].includes(method)) return undefined;
  const created = workflowOf<unknown[], unknown>(bound(method.definition, given, classNameOf(given), null));
  statics.set(method, created);
  return created;
}

/** The workflows of a class or an instance, by the names of their methods. */
export function workflowsByMethod(target: Configured | Class): Map<PropertyKey, AnyWorkflow> {
  const instance = isConfigured(target) ? target : undefined;
  const given = isConfigured(target) ? target[instanceKey].definedBy : target;
  const found = new Map<PropertyKey, AnyWorkflow>();
  for (const [key, method] of methodsOf(given, instance ? 'instance' : 'static')) {
    const workflow = instance ? instanceWorkflow(instance, method) : staticWorkflow(given, method);
    if (workflow) found.set(key, workflow);
  }
  return found;
}

/** What an app that is given a class, or an instance, gets to know. */
export interface GivenClass {
  readonly className: string;
  readonly definedBy: Class;
  readonly workflows: readonly AnyWorkflow[];
  /** The code of all workflows of the class, whichever instances there are: what a version is made of. */
  readonly code: readonly { readonly name: string; readonly className: string; readonly source: string }[];
  /**
   * Of a class: hears of the instances that are constructed from now on, until the returned function is called.
   * Undefined for a single instance, which stands for itself alone.
   */
  readonly watch: ((watcher: Watcher) => () => void) | undefined;
}

/** Undefined: the value is neither a class with workflows nor an instance of one. */
export function givenClass(value: unknown): GivenClass | undefined {
  const instance = isConfigured(value) ? value : undefined;
  const definedBy = instance ? instance[instanceKey].definedBy : value;
  if (!isClass(definedBy)) return undefined;
  const methods = [...methodsOf(definedBy, 'static').values(), ...methodsOf(definedBy, 'instance').values()];
  if (methods.length === 0) return undefined;
  const className = classNameOf(definedBy);
  const { instances, watchers } = recordOf(definedBy);
  const targets = instance ? [instance] : [definedBy, ...instances.values()];
  return {
    className,
    definedBy,
    workflows: targets.flatMap((target) => [...workflowsByMethod(target).values()]),
    code: methods.map(({ definition: { name, source } }) => ({ name, className, source })),
    watch: instance ? undefined : watchedBy(watchers),
  };
}

function watchedBy(watchers: Set<Watcher>): (watcher: Watcher) => () => void {
  return (watcher) => {
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  };
}
