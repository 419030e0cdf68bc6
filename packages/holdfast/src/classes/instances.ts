import type { WorkflowDefinition } from '../engine/api/definition.js';
import { type AnyWorkflow, workflowOf } from '../engine/api/workflow.js';
import { HoldfastError } from '../model/errors.js';
import { checkClassName } from '../model/ids.js';
import { release } from '../model/release.js';
import { type Class, isClass, type Method, methodsOf } from './method.js';

/**
 * Classes, their instances, and the workflows of their methods.
 *
 * An instance is registered with its class for the lifetime of the class, and with every running app that was given
 * the class. There is no list of all instances of the process. Two apps of a process may have different instances.
 * Two classes of one name (in two packages, or in two tests) conflict only if one app is given both.
 */

/** Called for each instance that is constructed after an app was given the class. */
export type Watcher = (workflows: readonly AnyWorkflow[], instance: { className: string; configName: string }) => void;

/** The data of one class. Subclasses have their own. */
interface ClassRecord {
  name: string | undefined;
  readonly instances: Map<string, Configured>;
  readonly statics: Map<Method, AnyWorkflow>;
  readonly watchers: Set<Watcher>;
}

interface InstanceRecord {
  readonly configName: string;
  readonly definedBy: Class;
  /** The workflow of each workflow method that is not overridden. */
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

/** Returns the name under which the workflows of a class are stored. */
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
 * Registers an instance with its class and with the running apps that have the class. The constructor of the instance
 * has not ended yet. Its remaining code runs in the same event loop turn, before an app can claim work for the
 * instance.
 */
export function registerInstance(instance: object, definedBy: Class, given: string): void {
  const configName = checkClassName('The name of an instance', given);
  const className = classNameOf(definedBy);
  const record = recordOf(definedBy);
  if (record.instances.has(configName)) {
    throw new HoldfastError(
      'DUPLICATE_WORKFLOW',
      `Class "${className}" already has an instance named "${configName}". A stored workflow finds its instance by ` +
        'this name. Give the new instance another name, or use the existing instance. If the constructor of the ' +
        'existing instance threw, its name is still taken: run code that can fail before super(), or in a method.',
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

/** Returns the workflow of a method of an instance. Returns undefined if a subclass overrides the method. */
export function instanceWorkflow(instance: Configured, method: Method): AnyWorkflow | undefined {
  return instance[instanceKey].workflows.get(method);
}

/** Returns the workflow of a static method. Returns undefined if a subclass overrides the method. */
export function staticWorkflow(given: Class, method: Method): AnyWorkflow | undefined {
  const { statics } = recordOf(given);
  const existing = statics.get(method);
  if (existing) return existing;
  if (![...methodsOf(given, 'static').values()].includes(method)) return undefined;
  const created = workflowOf<unknown[], unknown>(bound(method.definition, given, classNameOf(given), null));
  statics.set(method, created);
  return created;
}

/** Returns the workflows of a class or an instance by method name. */
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

/** The data that an app needs about a class or an instance. */
export interface ClassInfo {
  readonly className: string;
  readonly definedBy: Class;
  readonly workflows: readonly AnyWorkflow[];
  /**
   * The code of all workflows of the class, independent of its instances. The version of the app is computed from this
   * code.
   */
  readonly code: readonly { readonly name: string; readonly className: string; readonly source: string }[];
  /**
   * Calls the watcher for each instance that is constructed later, until the returned function is called. Undefined
   * if a single instance was given instead of its class.
   */
  readonly watch: ((watcher: Watcher) => () => void) | undefined;
}

/** Returns undefined if the value is neither a class with workflows nor an instance of such a class. */
export function classInfoOf(value: unknown): ClassInfo | undefined {
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
