import type { Engine } from './engine.js';

/** Under which an app or a client keeps its engine, also for another copy of the package. */
const engineKey = Symbol.for('holdfast.engine.v1');

/** Makes the object stand for the engine where an option `app` is asked for. */
export function standFor(app: object, engine: Engine): void {
  Object.defineProperty(app, engineKey, { value: engine });
  engine.app = app;
}

/** The engine of what `launch` or `connect` returned. */
export function engineOf(app: unknown): Engine | undefined {
  if (typeof app !== 'object' || app === null) return undefined;
  return (app as { [engineKey]?: Engine })[engineKey];
}
