import { AsyncLocalStorage } from 'node:async_hooks';

// A carrier, not state: it holds nothing of any engine. It is shared between copies of the package in one process, so
// that a workflow defined with one copy finds itself when it calls a step of another.
const key = Symbol.for('holdfast.scope.v1');
const shared = globalThis as { [key]?: AsyncLocalStorage<unknown> };
shared[key] ??= new AsyncLocalStorage<unknown>();

/** Carries the scope of a workflow or step (context.ts) through the calls that its code makes. */
export const carrier = shared[key];

/** Runs `fn` in no workflow, whoever calls: code of one workflow must not act in the name of another. */
export function outside<R>(fn: () => R): R {
  return carrier.run(undefined, fn);
}
