import { HoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import { release } from '../model/release.js';
import { keyText, type WorkflowKey } from '../model/workflow-key.js';
import { currentScope } from './api/context.js';
import type { WorkflowDefinition } from './api/definition.js';
import type { Engine } from './engine.js';

/** Under which an app or a client keeps its engine, also for another copy of the package. */
const engineKey = Symbol.for(`holdfast.engine@${release}`);

/** Makes the object stand for the engine where an option `app` is asked for. */
export function attachEngine(app: object, engine: Engine): void {
  Object.defineProperty(app, engineKey, { value: engine });
  engine.app = app;
}

/** The engine of what `launch` or `connect` returned. */
export function engineOf(app: unknown): Engine | undefined {
  if (typeof app !== 'object' || app === null) return undefined;
  return (app as { [engineKey]?: Engine })[engineKey];
}

/**
 * The running apps of this process, and the workflows that can be called in each. An app is here from its launch on; its
 * workflows follow when it may run them, which is later than when its registry has them.
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

/** The running apps in which a workflow of this name can be called, each with what it has registered under the name. */
export function appsWith(key: WorkflowKey): { readonly engine: Engine; readonly definition: WorkflowDefinition }[] {
  const text = keyText(key);
  return [...running].flatMap(([engine, callable]) => {
    const definition = callable.get(text);
    return definition ? { engine, definition } : [];
  });
}

const launching = processWide('launching', () => ({ count: 0 }));

/** Counts a launch that is under way: whoever calls a workflow meanwhile has most likely forgotten to await it. */
export async function whileLaunching<T>(launched: Promise<T>): Promise<T> {
  launching.count++;
  try {
    return await launched;
  } finally {
    launching.count--;
  }
}

/** What to add where no app was found. */
export function launchHint(): string {
  return launching.count > 0 ? ' A launch() is under way in this process: await it before the first call.' : '';
}

/** The engine that a call means: of the app that it names, of the workflow it is made in, or of the only app there is. */
export function resolveEngine(what: string, app: object | undefined): Engine {
  if (app !== undefined) {
    const engine = engineOf(app);
    if (!engine) throw invalidOption(what, 'app', app, 'what launch() or connect() returned');
    return engine;
  }
  const scope = currentScope();
  if (scope) return scope.execution.engine;
  const [engine, another] = running.keys();
  if (engine && !another) return engine;
  if (engine) {
    throw new HoldfastError(
      'AMBIGUOUS_APP',
      `${what}: several apps run in this process. Say which one with { app }: what launch() or connect() returned.`,
    );
  }
  throw new HoldfastError(
    'NOT_LAUNCHED',
    `${what}: no app runs in this process. Call launch() first, or give { app }: what connect() returned.${launchHint()}`,
  );
}

/** A typed error when the app was shut down. A step that is still running while the app drains may go on. */
export function checkOpenFor(engine: Engine): void {
  if (!currentScope()) engine.checkOpen();
}
