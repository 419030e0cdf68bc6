import { HoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import { release } from '../model/release.js';
import { keyText, type WorkflowKey } from '../model/workflow-key.js';
import { currentScope } from './api/context.js';
import type { WorkflowDefinition } from './api/definition.js';
import type { Engine } from './engine.js';

/** The property in which an app or a client keeps its engine. Other copies of the package use the same symbol. */
const engineKey = Symbol.for(`holdfast.engine@${release}`);

/** Attaches the engine to the object, so that callers can pass the object as the option `app`. */
export function attachEngine(app: object, engine: Engine): void {
  Object.defineProperty(app, engineKey, { value: engine });
  engine.app = app;
}

/** Returns the engine of an object that `launch` or `connect` returned. */
export function engineOf(app: unknown): Engine | undefined {
  if (typeof app !== 'object' || app === null) return undefined;
  return (app as { [engineKey]?: Engine })[engineKey];
}

/**
 * The running apps of this process, and the workflows that can be called in each. An app is added at its launch. Its
 * workflows are added when the app may run them, which is later than their registration.
 */
const running = processWide('runningApps', () => new Map<Engine, Map<string, WorkflowDefinition>>());

export function markRunning(engine: Engine): void {
  running.set(engine, new Map());
}

export function markCallable(engine: Engine, definition: WorkflowDefinition): void {
  running.get(engine)?.set(keyText(definition), definition);
}

export function markClosed(engine: Engine): void {
  running.delete(engine);
}

/** Returns the running apps in which a workflow of this name can be called, each with its definition of the name. */
export function appsWith(key: WorkflowKey): { readonly engine: Engine; readonly definition: WorkflowDefinition }[] {
  const text = keyText(key);
  return [...running].flatMap(([engine, callable]) => {
    const definition = callable.get(text);
    return definition ? { engine, definition } : [];
  });
}

const launching = processWide('launching', () => ({ count: 0 }));

/** Counts an unfinished launch. A caller who calls a workflow meanwhile most likely forgot to await the launch. */
export async function whileLaunching<T>(launched: Promise<T>): Promise<T> {
  launching.count++;
  try {
    return await launched;
  } finally {
    launching.count--;
  }
}

/** Returns a hint for the error message of a call for which no app was found. */
export function launchHint(): string {
  return launching.count > 0 ? ' A launch() has not finished in this process. Await it before the first call.' : '';
}

/** Returns the engine for a call: of the app in its options, of the calling workflow, or of the only running app. */
export function resolveEngine(what: string, app: object | undefined): Engine {
  if (app !== undefined) {
    const engine = engineOf(app);
    if (!engine) throw invalidOption(what, 'app', app, 'the object that launch() or connect() returned');
    return engine;
  }
  const scope = currentScope();
  if (scope) return scope.execution.engine;
  const [engine, another] = running.keys();
  if (engine && !another) return engine;
  if (engine) {
    throw new HoldfastError(
      'AMBIGUOUS_APP',
      `${what}: several apps run in this process. Choose one with { app }: the result of launch() or connect().`,
    );
  }
  throw new HoldfastError(
    'NOT_LAUNCHED',
    `${what}: no app runs in this process. Call launch() first, or pass a client as { app }.${launchHint()}`,
  );
}

/** Throws a typed error if the app was shut down. A step that still runs while the app drains may continue. */
export function checkOpenFor(engine: Engine): void {
  if (!currentScope()) engine.lifecycle.checkOpen();
}
